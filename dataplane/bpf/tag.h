/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Maps of tag.bpf.c as user space sees them; dataplane/tagger.py has the same layouts. */
#ifndef SLUICE_TAG_H
#define SLUICE_TAG_H

/* Map "settings": one entry, key 0. */
struct tag_settings {
	__u64 idle_gap_ns;
	__u64 carries;		  /* TAG_DEADLINES, TAG_SIZES: carried instead of the bytes sent */
	__u64 urgent_after_bytes; /* a deadline flow's tag is its urgency after this many bytes */
};

#define TAG_DEADLINES 1 /* deadline flows carry their urgency */
#define TAG_SIZES 2	/* flows of known size carry its class */

/* Map "counters": per CPU, key = DSCP when the packet left; only packets of local sockets. */
#define TAG_DSCPS 64
struct tag_counters {
	__u64 packets;
	__u64 bytes; /* with the Ethernet header */
};

_Static_assert(sizeof(struct tag_settings) == 24, "as in tagger.py");
_Static_assert(sizeof(struct tag_counters) == 16, "as in tagger.py");

#endif
