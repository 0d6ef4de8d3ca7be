/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * A congestion control in one file. The same file runs in the simulator and, compiled to BPF, in the kernel
 * (docs/how-to/add-a-control.md). It defines
 *
 *   SL_CONTROL        its name: at most 8 small letters, digits and underscores
 *   SL_PARAMETERS(P)  P(name, default, "help") for each number that a scenario can set; 32 bits, at most 16
 *   SL_STATE          the type of what it keeps for a connection: at most 512 bytes, zero at the start
 *   SL_ECHO           what the receiver echoes, SL_ECHO_EXACT unless it says another
 *   SL_RAMP           1 if its scheme's ports mark by chance between two thresholds (RED), not at one
 *   SL_TELEMETRY      1 if it reads what each hop says of itself; only the simulator has that
 *
 * then includes this header, then defines its hooks, and names each in a macro:
 *
 *   SL_ON_WINDOW      a window of data has ended; `window` is its record (control.h)
 *   SL_ON_START       the connection is established
 *   SL_ON_ACK         an ACK came
 *   SL_ON_LOSS        packets are lost, for the first time since all packets of the last loss were acknowledged
 *   SL_ON_TIMEOUT     nothing came for a retransmission timeout
 *
 * All but SL_CONTROL and one of SL_ON_WINDOW and SL_ON_ACK may be missing.
 *
 * A control without SL_ON_ACK answers in the record, and its window moves as Reno's: slow start, growth by packets,
 * the cut by `penalty_q20` for marks and by a half for losses. It has no SL_ON_LOSS and no SL_ON_TIMEOUT.
 *
 * A control with SL_ON_ACK owns its window: nothing but its hooks changes `cwnd_q16` and `pacing_bytes_per_s`. Without
 * SL_ON_LOSS a loss halves the window; without SL_ON_TIMEOUT a timeout leaves one packet of it. A window below one
 * packet sends a packet in more than one round trip.
 */
#ifndef SLUICE_LAWS_HOOKS_H
#define SLUICE_LAWS_HOOKS_H

#include "control.h"
#include "types.h"

#define SL_ECHO_NONE 0	   /* the control reads no marks, and its packets ask for none */
#define SL_ECHO_STANDARD 1 /* until the sender has reduced its window (RFC 3168) */
#define SL_ECHO_EXACT 2	   /* the mark of each packet (RFC 8257) */

#define SL_PARAMETERS_MAX 16
#define SL_STATE_MAX 512 /* bytes */
#define SL_HOPS_MAX 8

#ifdef SL_STATE
#define SL_HAS_STATE
#define SL_STATE_BYTES sizeof(SL_STATE)
#else
#define SL_STATE void
#define SL_STATE_BYTES 0
#endif

/* The parameters, in the order of SL_PARAMETERS. */
struct sl_parameters {
#ifdef SL_PARAMETERS
#define SL_FIELD(name, value, help) sl_u32 name;
	SL_PARAMETERS(SL_FIELD)
#undef SL_FIELD
#else
	sl_u32 none;
#endif
};

/* What the port of a switch said when it began to send a packet. */
struct sl_hop {
	sl_u64 at_ns;
	sl_u64 sent_bytes;  /* by the port, since the beginning, with this packet */
	sl_u64 queue_bytes; /* what waits behind this packet */
	sl_u64 bytes_per_s; /* the link's rate */
};

/* An ACK. */
struct sl_ack {
	sl_u64 rtt_ns;		  /* of the newest packet that it reports */
	sl_u32 acked;		  /* packets that it reports for the first time */
	sl_u32 marked;		  /* of these, those that were marked */
	sl_u32 limited;		  /* 1: only the window kept the sender from sending more */
	sl_u32 round;		  /* 1: of the first packet that left after the last ACK with 1 */
	sl_u32 hops;		  /* with SL_TELEMETRY: the length of `hop`, at most SL_HOPS_MAX */
	const struct sl_hop *hop; /* from the sender to the receiver, as the newest packet met them */
};

#define SL_Q16_ONE (1ULL << 16)
#define SL_LEAST_CWND_Q16 64ULL /* a thousandth of a packet */

/* What a hook knows of its connection. */
struct sl_sender {
	sl_u64 now_ns;		 /* from a monotonic clock */
	sl_u64 smoothed_rtt_ns;	 /* 0 before the first sample */
	sl_u64 least_rtt_ns;	 /* the same */
	sl_u64 link_bytes_per_s; /* the rate of the host's own link; 0: unknown */
	sl_u32 mss_bytes;

	/* Its answers. */
	sl_u64 cwnd_q16;	   /* the window in packets */
	sl_u64 pacing_bytes_per_s; /* payload; 0: packets leave as soon as the window allows */

	struct sl_window_record *window; /* SL_ON_WINDOW only */
	SL_STATE *own;
	const struct sl_parameters *parameters;
};

/* What the simulator loads: the hooks that a file has, the others NULL. */
struct sl_hooks {
	sl_u32 version; /* SL_HOOKS_VERSION */
	sl_u32 parameters;
	sl_u32 state_bytes;
	sl_u32 echo;
	sl_u32 telemetry;
	void (*on_window)(struct sl_sender *s);
	void (*on_start)(struct sl_sender *s);
	void (*on_ack)(struct sl_sender *s, const struct sl_ack *ack);
	void (*on_loss)(struct sl_sender *s);
	void (*on_timeout)(struct sl_sender *s);
};

#define SL_HOOKS_VERSION 1

SL_LAW void sl_halve(struct sl_sender *s)
{
	s->cwnd_q16 /= 2;
}

SL_LAW void sl_leave_one_packet(struct sl_sender *s)
{
	s->cwnd_q16 = SL_Q16_ONE;
}

/* From one full packet to the next: by the rate, and in a window below one packet, by its part of a round trip. */
SL_LAW sl_u64 sl_gap_ns(const struct sl_sender *s)
{
	sl_u64 gap_ns = s->pacing_bytes_per_s ? (sl_u64)s->mss_bytes * 1000000000 / s->pacing_bytes_per_s : 0;
	sl_u64 least_ns = 0;

	if (s->cwnd_q16 < SL_Q16_ONE && s->cwnd_q16)
		least_ns = s->smoothed_rtt_ns * SL_Q16_ONE / s->cwnd_q16;
	return gap_ns > least_ns ? gap_ns : least_ns;
}

#endif
