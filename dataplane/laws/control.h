/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The answer of a congestion control at the end of a window of data. One record per window holds
 * inputs and outputs. Each control has one function, which computes the outputs from the inputs.
 * The kernel's programs and the simulator's senders call the same functions.
 *
 *   in     what happened in the window, what is known of the flow, alpha after the window
 *   out    penalty_q20   a mark cuts to cwnd * (1 - p / 2), until the next window has ended
 *          bound         of the window, in packets; 0: none
 *          urgency, precedence, rate, phase: for programs that read them, and for the tag
 *
 * Sources: in the headers of the called laws. Range: any input.
 */
#ifndef SLUICE_LAWS_CONTROL_H
#define SLUICE_LAWS_CONTROL_H

#include "d2tcp.h"
#include "datcp.h"
#include "dctcp.h"
#include "mcp.h"
#include "types.h"
#include "ucp.h"

enum sl_window_flag { SL_WINDOW_SLOW_START = 1, SL_WINDOW_HAS_DEADLINE = 2, SL_WINDOW_HAS_SIZE = 4 };

/* The same values as enum sluice_phase and enum sluice_quench in the programs' sluice.h. */
enum sl_phase { SL_SENDING = 0, SL_SUSPENDED = 1, SL_KILLED = 2 };
enum sl_on_quench { SL_QUENCH_NEVER = 0, SL_QUENCH_KILL = 1, SL_QUENCH_SUSPEND = 2 };

/* 128 bytes. Fields that a law does not use are zero. */
struct sl_window_record {
	sl_u64 at_ns;		 /* from a monotonic clock */
	sl_u64 acked_bytes;	 /* in this window */
	sl_u64 took_us;		 /* 1 and more */
	sl_u64 remaining_bytes;	 /* of the flow, at the end of the window */
	sl_u64 left_ns;		 /* until the deadline, at the window's end; 0: none, or it has passed */
	sl_u64 elapsed_ns;	 /* since the flow began */
	sl_u64 rate_bytes_per_s; /* R_avg after this window */
	sl_u32 acked;		 /* packets of this window */
	sl_u32 marked;		 /* those of them with a mark */
	sl_u32 cwnd;		 /* packets, at the end of the window */
	sl_u32 rtt_us;		 /* smoothed */
	sl_u32 mss_bytes;
	sl_u32 flags;  /* SL_WINDOW_* */
	sl_u32 random; /* uniform over 32 bits, for laws that draw */
	sl_u32 phase;  /* enum sl_phase, after this window, as all fields below */
	sl_u32 alpha_q20;
	sl_u32 urgency_q16;
	sl_u32 precedence_q16;
	sl_u32 penalty_q20;
	sl_u32 cuts; /* so far; the last one went from cut_from to cut_to packets */
	sl_u32 cut_from;
	sl_u32 cut_to;
	sl_u32 cut_penalty_q20;
	sl_u32 bound;
	sl_u32 growth; /* packets that a window of data adds; an input */
};

SL_STATIC_ASSERT(sizeof(struct sl_window_record) == 128, "as in windows.py");

SL_LAW int sl_window_has(const struct sl_window_record *w, sl_u32 flags)
{
	return (w->flags & flags) == flags;
}

SL_LAW void sl_control_dctcp(struct sl_window_record *w)
{
	w->penalty_q20 = w->alpha_q20;
}

#define SL_WINDOW_NS_MAX (1ULL << 62) /* 146 years; longer times count as 146 years */

SL_LAW sl_u64 sl_window_ns(sl_u64 ns)
{
	return ns < SL_WINDOW_NS_MAX ? ns : SL_WINDOW_NS_MAX;
}

SL_LAW void sl_control_ucp(struct sl_window_record *w)
{
	sl_u64 now_ns = 1 + sl_window_ns(w->elapsed_ns); /* for a flow that began at time 1 */

	if (sl_window_has(w, SL_WINDOW_HAS_DEADLINE))
		w->urgency_q16 = sl_ucp_urgency_q16(1, now_ns + sl_window_ns(w->left_ns), now_ns);
	w->penalty_q20 = sl_ucp_penalty_q20(w->alpha_q20, w->urgency_q16);
}

SL_LAW void sl_control_d2tcp(struct sl_window_record *w)
{
	if (sl_window_has(w, SL_WINDOW_HAS_DEADLINE | SL_WINDOW_HAS_SIZE))
		w->urgency_q16 = sl_d2tcp_imminence_q16(w->remaining_bytes, w->left_ns / 1000,
							(sl_u64)w->cwnd * w->mss_bytes, w->rtt_us);
	w->penalty_q20 = sl_d2tcp_penalty_q20(w->alpha_q20, w->urgency_q16);
}

SL_LAW void sl_control_mcp(struct sl_window_record *w)
{
	w->penalty_q20 = w->alpha_q20;
	if (sl_window_has(w, SL_WINDOW_HAS_DEADLINE | SL_WINDOW_HAS_SIZE))
		w->bound = sl_mcp_bound(w->remaining_bytes, w->left_ns / 1000, w->rtt_us, w->mss_bytes);
}

#define SL_QUENCHED_CWND SL_MIN_CWND /* enough to see marks and to measure round trips */

/*
 * On entry, `w->phase` is the flow's phase before this window. `on_quench` is enum sl_on_quench.
 * A killed flow stays killed. A suspended flow continues when the law allows it.
 */
SL_LAW void sl_control_datcp(struct sl_datcp_state *s, const struct sl_datcp_goal *goal, sl_u32 on_quench,
			     sl_u32 least_rtt_us, struct sl_window_record *w)
{
	struct sl_datcp_window window = {
		.acked_bytes = w->acked_bytes,
		.took_us = w->took_us,
		.remaining_bytes = w->remaining_bytes,
		.left_us = sl_datcp_left_us(w->left_ns / 1000, w->rtt_us),
		.slow_start = w->flags & SL_WINDOW_SLOW_START,
		.random = w->random,
	};

	if (w->phase == SL_SENDING) {
		if (sl_datcp_window_ended(s, goal, &window)) {
			w->phase = on_quench == SL_QUENCH_KILL ? SL_KILLED : SL_SUSPENDED;
			sl_datcp_suspended(s, w->rtt_us);
		}
	} else if (w->phase == SL_SUSPENDED && sl_datcp_may_resume(s, w->marked, w->rtt_us, least_rtt_us)) {
		w->phase = SL_SENDING;
	}
	w->rate_bytes_per_s = s->average_bytes_per_s;
	w->urgency_q16 = s->urgency_q16;
	w->precedence_q16 = s->precedence_q16;
	w->penalty_q20 = sl_datcp_decrease_q16(w->precedence_q16) << 5; /* 2 b, from Q16 to Q20 */
	w->bound = w->phase == SL_SENDING ? 0 : SL_QUENCHED_CWND;
}

#endif
