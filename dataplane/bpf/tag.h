/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Maps of tag.bpf.c as user space sees them; dataplane/tagger.py has the same layouts. */
#ifndef SLUICE_TAG_H
#define SLUICE_TAG_H

struct tag_settings {
	__u64 idle_gap_ns;
	__u64 carries;		  /* TAG_DEADLINES, TAG_SIZES: carried instead of the bytes sent */
	__u64 urgent_after_bytes; /* a deadline flow's tag is its urgency after this many bytes */
};

#define TAG_DEADLINES 1	   /* deadline flows carry their urgency */
#define TAG_SIZES 2	   /* flows of known size carry its class */
#define TAG_FORGETS_LATE 4 /* a passed deadline counts as none */

/* Map "counters": per CPU, key = DSCP when the packet left, or TAG_DSCPS for all packets not of local sockets. */
#define TAG_DSCPS 64
struct tag_counters {
	__u64 packets;
	__u64 bytes; /* with the Ethernet header */
};

/* Map "guest_seen": per CPU, key = index of the guest's interface % GUEST_COUNTS; packets that the program has seen. */
#define GUEST_COUNTS 4096

#define TAG_NONE 255
#define TAG_LEVEL 254	 /* the level that the socket's program has chosen (SO_PRIORITY), from 1 on */
#define TAG_LAST_LEVEL 8 /* of a socket that has chosen none */

struct tag_written {
	__u8 reserved; /* a packet that has this DSCP keeps it */
	__u8 as;       /* the DSCP that is written for this tag, TAG_LEVEL, or TAG_NONE: the packet keeps its own */
};

/* The variable "policy", in the map ".bss" at key 0. The program fills it before it attaches the tagger. */
struct tag_policy {
	struct tag_settings settings;
	struct {
		struct tag_written written;
		__u32 priority; /* of packets with this DSCP; 0: the priority stays */
	} of[TAG_DSCPS];
};

/*
 * Map "foreign": per CPU, key = DSCP that a packet had before the tagger. Others use this DSCP.
 * Protocol and ports are those of the CPU's newest packet with a socket; 0 while there was none.
 */
struct tag_foreign {
	__u64 seen;	 /* packets of local sockets */
	__u64 forwarded; /* packets without a local socket, which keep their DSCP */
	__u32 protocol;
	__u16 src_port;
	__u16 dst_port;
};

_Static_assert(sizeof(struct tag_written) == 2, "as in tagger.py");
_Static_assert(sizeof(struct tag_foreign) == 24, "as in tagger.py");
_Static_assert(sizeof(struct tag_settings) == 24, "as in tagger.py");
_Static_assert(sizeof(struct tag_counters) == 16, "as in tagger.py");

#endif
