/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The log of a socket: what its congestion control was given at the end of each window of data, and what the law made of
 * it; so that the law can be asked again (dataplane/windows.py). Only sockets for which somebody has asked keep one.
 */
#ifndef SLUICE_WINDOWS_H
#define SLUICE_WINDOWS_H

#define WINDOWS_KEPT 256 /* the newest; a power of two */

#define WINDOW_SLOW_START 1
#define WINDOW_HAS_DEADLINE 2
#define WINDOW_HAS_SIZE 4

/* 128 bytes. Fields that a law does not use are zero. */
struct window_record {
	__u64 at_ns;		/* CLOCK_MONOTONIC */
	__u64 acked_bytes;	/* in this window */
	__u64 took_us;		/* 1 and more */
	__u64 remaining_bytes;	/* of the flow, at the end of the window */
	__u64 left_ns;		/* until the deadline, at the end of the window; 0: none, or passed */
	__u64 elapsed_ns;	/* since the flow began */
	__u64 rate_bytes_per_s; /* R_avg after it */
	__u32 acked;		/* packets of the window */
	__u32 marked;		/* of those */
	__u32 cwnd;		/* packets, at the end of the window */
	__u32 rtt_us;		/* smoothed */
	__u32 mss_bytes;
	__u32 flags;  /* WINDOW_* */
	__u32 random; /* uniform over 32 bits; where a law draws */
	__u32 phase;  /* enum sluice_phase, after it, as all below */
	__u32 alpha_q20;
	__u32 urgency_q16;
	__u32 precedence_q16;
	__u32 penalty_q20; /* p: a mark cuts to cwnd * (1 - p / 2) */
	__u32 cuts;	   /* so far; the last one went from … to …, in packets */
	__u32 cut_from;
	__u32 cut_to;
	__u32 cut_penalty_q20;
	__u32 bound; /* of cwnd, in packets; 0: none */
	__u32 unused;
};

struct window_log {
	__u32 count; /* of all records so far; the next one goes to count % WINDOWS_KEPT */
	__u32 unused;
	struct window_record records[WINDOWS_KEPT];
};

_Static_assert(sizeof(struct window_record) == 128, "as in windows.py");
_Static_assert(sizeof(struct window_log) <= 65535 - 64, "the kernel's limit of socket storage");

#endif
