/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Generated from policy/tags.py by `make gen`: change that file, not this one. */
#ifndef SLUICE_TAGS_GEN_H
#define SLUICE_TAGS_GEN_H

#define SL_TAG_UNTAGGED 0
#define SL_TAG_ATTAINED_FIRST 1
#define SL_TAG_ATTAINED_LAST 40
#define SL_TAG_URGENCY_FIRST 41
#define SL_TAG_URGENCY_LAST 56
#define SL_TAG_KNOWN_SIZE_FIRST 57
#define SL_TAG_KNOWN_SIZE_LAST 60
#define SL_TAG_BACKGROUND 61
#define SL_TAG_COUNT 62
#define SL_TAG_BURST_BYTES 14600
#define SL_ATTAINED_BUCKETS 40
#define SL_URGENCY_STEPS 16
#define SL_KNOWN_SIZE_CLASSES 4
#define SL_URGENCY_ONE_Q16 65536
#define SL_DEFAULT_IDLE_GAP_NS 10000000

/* Upper edges in bytes of the attained-service buckets; each bucket is closed on the right. */
static const unsigned int sl_attained_edges_bytes[40] = {
	1000, 1334, 1778, 2371, 3162, 4217, 5623, 7499, 10000, 13335,
	17783, 23714, 31623, 42170, 56234, 74989, 100000, 133352, 177828, 237137,
	316228, 421697, 562341, 749894, 1000000, 1333521, 1778279, 2371374, 3162278, 4216965,
	5623413, 7498942, 10000000, 13335214, 17782794, 23713737, 31622777, 42169650, 56234133, 74989421
};

/* Upper edges of the urgency steps, Q16. */
static const unsigned int sl_urgency_edges_q16[15] = {
	5793, 8192, 11585, 16384, 23170, 32768, 46341, 65536, 92682, 131072,
	185364, 262144, 370728, 524288, 741455
};

/* Largest sizes in bytes of the known-size classes but the last. */
static const unsigned int sl_known_size_edges_bytes[3] = {
	100000, 1000000, 10000000
};

#endif
