/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Maps and records of watch.bpf.c for user space; dataplane/watch.py has the same layouts. */
#ifndef SLUICE_WATCH_H
#define SLUICE_WATCH_H

/* Map "settings": one entry, key 0. */
struct watch_settings {
	__u32 namespace_inode; /* of the network namespace that is watched */
	__u32 own_port;	       /* connections to this port are not watched; 0: all are */
	__u64 idle_gap_ns;     /* as in tag.h: a flow ends when its direction is idle for longer */
	__u64 others;	       /* not 0: all namespaces that no agent serves are watched, too */
	__u64 cgroup_root;     /* id of the group below which cgroups have names; 0: of the machine's */
};

/* Map "losses": per CPU, key 0. */
struct watch_losses {
	__u64 records;	   /* lost because the ring buffer was full */
	__u64 connections; /* not watched because memory was short */
};

#define WATCH_CGROUP_LEVELS 8
#define WATCH_CGROUP_BYTES 96

/* Map "cgroups": id of a socket's cgroup → its name and those of the groups around it, the innermost first. */
struct watch_cgroup {
	char names[WATCH_CGROUP_LEVELS][WATCH_CGROUP_BYTES];
};

#define WATCH_CONTROL_BYTES 16 /* TCP_CA_NAME_MAX */
#define WATCH_UNKNOWN 0xFFFFFFFF

#define WATCH_ACTIVE 0x1     /* this end opened the connection */
#define WATCH_ADOPTED 0x2    /* it was open before the watch began */
#define WATCH_LATER 0x4	     /* this end's flow began with a write, not with the connection */
#define WATCH_NEXT 0x8	     /* the flow ended because this end began the next one */
#define WATCH_PART 0x10	     /* not the first flow of the connection */
#define WATCH_SENT 0x20	     /* all that the program has written was sent, though perhaps not acknowledged */
#define WATCH_BOTH 0x40	     /* with `others`: the other end is a watched socket of this machine, too */
#define WATCH_ELSEWHERE 0x80 /* with `others`: not in the agent's own namespace */

/*
 * A flow of a connection: at its end (ring buffer "ended"), or the one under way (iterator). Times
 * are CLOCK_MONOTONIC; bytes are payload. The counters begin with the flow.
 */
struct watch_connection {
	__u64 cookie;	/* of the socket: unique on this machine until it boots again */
	__u64 start_ns; /* of the connection, or when the flow before this one ended */
	__u64 read_ns;
	__u64 sent_at_ns;     /* when the last sent byte was acknowledged; 0: not all bytes are */
	__u64 received_at_ns; /* when the other end had closed its direction; 0: it has not */
	__u64 sent_bytes;     /* acknowledged */
	__u64 received_bytes;
	__u64 told_start_ns; /* of the declared flow; 0: none was declared with a deadline */
	__u64 told_deadline_ns;
	__u64 first_sent_ns; /* when the program first wrote; 0: it has not */
	__u64 last_sent_ns;  /* when the last acknowledged segment was last transmitted; 0: unknown */
	__u64 cgroup;	     /* id of the socket's cgroup, version 2; 0: unknown */
	__u32 pending_bytes; /* written by the program, not acknowledged */
	__u32 retransmissions;
	__u32 timeouts;	  /* WATCH_UNKNOWN before Linux 6.7 */
	__u32 srtt_us;	  /* 0: none measured */
	__u32 min_rtt_us; /* smallest round trip of the last minutes; 0: none measured */
	__u32 error;	  /* errno with which the connection ended, or 0 */
	__u16 family;
	__u16 local_port;
	__u16 remote_port;
	__u8 state;	/* before the end: of enum tcp_state */
	__u8 flags;	/* WATCH_ACTIVE … */
	__u8 local[16]; /* IPv4: the first four */
	__u8 remote[16];
	char control[WATCH_CONTROL_BYTES];
};

_Static_assert(sizeof(struct watch_settings) == 32, "as in watch.py");
_Static_assert(sizeof(struct watch_losses) == 16, "as in watch.py");
_Static_assert(sizeof(struct watch_connection) == 176, "as in watch.py");

#endif
