/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Tell the kernel about a flow, in any language: one setsockopt() on a TCP socket.
 *
 *	struct sluice_flow flow = {
 *		.fields = SLUICE_HAS_SIZE | SLUICE_HAS_DEADLINE,
 *		.size_bytes = 200000,
 *		.deadline_ns = 25 * 1000 * 1000,
 *	};
 *	setsockopt(fd, SOL_SLUICE, SLUICE_FLOW, &flow, sizeof(flow));
 *
 * The flow is what the program writes from then on, until it tells of the next one on the same connection; told before
 * connect(), it begins with the connection. Without any field: a flow of which nothing is known. getsockopt() of
 * SLUICE_FLOW gives back what was told (deadline_ns: what is left of it, below zero when it has passed; elapsed_ns: since
 * the flow began) and, always, the congestion control in force; SLUICE_STATE how the flow fares.
 *
 * Errors, after which the socket is as it was:
 *	EINVAL		a wrong value: a deadline that is not in the future, size 0, a congestion control that is not
 *			registered, a field that no SLUICE_HAS_ names, another length (getsockopt(): less room)
 *	EPERM		a congestion control that TCP_CONGESTION would not give this program either
 *	EOPNOTSUPP	not a TCP socket, or one that listens
 *	ENOPROTOOPT	no Sluice agent runs on this machine (getsockopt() of an IPv4 socket says EOPNOTSUPP then)
 *
 * The numbers and layouts here do not change; what is new gets a new option.
 */
#ifndef SLUICE_H
#define SLUICE_H

#define SOL_SLUICE 0x5C1C
#define SLUICE_FLOW 1  /* set and get: struct sluice_flow */
#define SLUICE_STATE 2 /* get: struct sluice_state */

#define SLUICE_HAS_SIZE 0x1
#define SLUICE_HAS_DEADLINE 0x2
#define SLUICE_HAS_IMPORTANCE 0x4
#define SLUICE_HAS_QUENCH 0x8
#define SLUICE_HAS_CONTROL 0x10
#define SLUICE_HAS_ALL 0x1F

#define SLUICE_CONTROL_BYTES 16 /* TCP_CA_NAME_MAX */
#define SLUICE_IMPORTANCE_MAX_MILLI 8000

/* What happens to a flow that cannot make its deadline (sluice_datcp, Zhang et al., section 3.3). */
enum sluice_quench {
	SLUICE_QUENCH_NEVER = 0,
	SLUICE_QUENCH_KILL = 1,	   /* send next to nothing; the program reads SLUICE_KILLED and closes */
	SLUICE_QUENCH_SUSPEND = 2, /* send next to nothing until the network is lightly loaded */
};

/* 56 bytes. A field counts when its SLUICE_HAS_ bit is set; the others must be zero. */
struct sluice_flow {
	unsigned int fields;
	unsigned int quench;	       /* enum sluice_quench */
	unsigned long long size_bytes; /* of the whole flow, 1 and more */
	long long deadline_ns;	       /* from now, above zero */
	unsigned long long
		elapsed_ns; /* with a deadline: how long ago the flow began (it waited in the program), or 0 */
	unsigned int importance_milli; /* 1000: as a standard flow; 1 … 8000 */
	unsigned int
		importance_share_milli; /* with an importance: its share of the precedence, 0 … 1000; urgency has the rest */
	char control[SLUICE_CONTROL_BYTES]; /* TCP_CONGESTION to select, ends with a zero byte */
};

enum sluice_phase {
	SLUICE_SENDING = 0,
	SLUICE_SUSPENDED = 1,
	SLUICE_KILLED = 2,
};

/* 64 bytes. Zeros until the congestion control has seen a window of the flow; a control of the kernel's own writes none. */
struct sluice_state {
	unsigned int phase;		     /* enum sluice_phase */
	unsigned int windows;		     /* windows of data since the flow began */
	unsigned long long acked_bytes;	     /* of this flow */
	unsigned long long rate_bytes_per_s; /* averaged throughput, R_avg */
	unsigned long long
		wanted_bytes_per_s;  /* what the deadline needs from now on, R_desired; all ones: more than can be */
	unsigned int alpha_q20;	     /* share of marked packets, averaged: 1 << 20 is all */
	unsigned int urgency_q16;    /* s (UCP), d (D2TCP) or U (DATCP); 1 << 16 is a flow without deadline */
	unsigned int precedence_q16; /* P (DATCP) */
	unsigned int decrease_q16;   /* share by which the window is cut at the next mark */
	unsigned int cwnd;	     /* packets */
	unsigned int cuts;	     /* of the window, since the flow began */
	unsigned int quenches;	     /* times that the flow was suspended or killed */
	unsigned int resumes;	     /* times that it went on again */
};

#endif
