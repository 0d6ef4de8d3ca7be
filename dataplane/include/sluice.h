/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Declare a flow to the kernel, in any language: one setsockopt() on a TCP socket.
 *
 *	struct sluice_flow flow = {
 *		.fields = SLUICE_HAS_SIZE | SLUICE_HAS_DEADLINE,
 *		.size_bytes = 200000,
 *		.deadline_ns = 25 * 1000 * 1000,
 *	};
 *	setsockopt(fd, SOL_SLUICE, SLUICE_FLOW, &flow, sizeof(flow));
 *
 * The flow is all that the program writes from then on, until it declares the next flow of the
 * same connection. A flow that is declared before connect() begins with the connection. If no
 * field is set, nothing is known of the flow.
 *
 * getsockopt(SLUICE_FLOW) returns the declared fields and, always, the congestion control in
 * force. In its answer, deadline_ns is the time left, which is negative after the deadline, and
 * elapsed_ns is the time since the flow began. getsockopt(SLUICE_STATE) returns the flow's state.
 *
 * Errors, after which the socket is unchanged:
 *	EINVAL		a wrong value: a deadline that is not in the future, size 0, a congestion
 *			control that is not registered, a field that no SLUICE_HAS_ names, or
 *			another length (getsockopt(): less room)
 *	EPERM		a congestion control that TCP_CONGESTION would refuse this program, too
 *	EOPNOTSUPP	not a TCP socket, or a listening one
 *	ENOPROTOOPT	no Sluice agent serves this network namespace; getsockopt() of an IPv4 socket returns
 *			EOPNOTSUPP instead
 *
 * The numbers and layouts here do not change. A new feature gets a new option.
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

/* What happens to a flow that cannot meet its deadline (sluice_datcp; Zhang et al., section 3.3). */
enum sluice_quench {
	SLUICE_QUENCH_NEVER = 0,
	SLUICE_QUENCH_KILL = 1,	   /* send almost nothing; the program reads SLUICE_KILLED and closes */
	SLUICE_QUENCH_SUSPEND = 2, /* send almost nothing until the network is lightly loaded */
};

/* 56 bytes. A field counts if its SLUICE_HAS_ bit is set. All other fields must be zero. */
struct sluice_flow {
	unsigned int fields;
	unsigned int quench;	       /* enum sluice_quench */
	unsigned long long size_bytes; /* of the whole flow, 1 and more */
	long long deadline_ns;	       /* from now, above zero */
	unsigned long long elapsed_ns; /* with a deadline: how long it has waited in the program, or 0 */
	unsigned int importance_milli; /* 1000: as a standard flow; 1 … 8000 */
	/* With an importance: its share of the precedence, 0 … 1000. Urgency has the rest. */
	unsigned int importance_share_milli;
	char control[SLUICE_CONTROL_BYTES]; /* TCP_CONGESTION to select, ends with a zero byte */
};

enum sluice_phase {
	SLUICE_SENDING = 0,
	SLUICE_SUSPENDED = 1,
	SLUICE_KILLED = 2,
};

/*
 * 64 bytes. All but acked_bytes are zero until the congestion control has seen a window of the
 * flow. The kernel's own controls never write them.
 */
struct sluice_state {
	unsigned int phase;		     /* enum sluice_phase */
	unsigned int windows;		     /* windows of data since the flow began */
	unsigned long long acked_bytes;	     /* of this flow */
	unsigned long long rate_bytes_per_s; /* averaged throughput, R_avg */
	/* Rate that the deadline needs from now on, R_desired; all ones: more than any rate. */
	unsigned long long wanted_bytes_per_s;
	unsigned int alpha_q20;	     /* share of marked packets, averaged: 1 << 20 is all */
	unsigned int urgency_q16;    /* s (UCP), d (D2TCP) or U (DATCP); 1 << 16: no deadline */
	unsigned int precedence_q16; /* P (DATCP) */
	unsigned int decrease_q16;   /* share by which the next mark cuts the window */
	unsigned int cwnd;	     /* packets */
	unsigned int cuts;	     /* of the window, since the flow began */
	unsigned int quenches;	     /* times that the flow was suspended or killed */
	unsigned int resumes;	     /* times that it continued */
};

#endif
