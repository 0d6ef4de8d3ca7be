// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * sluice_datcp: DATCP with quenching. The law is laws/datcp.h; its receiver is an ordinary ECN receiver (RFC 3168).
 *
 * A quenched flow keeps two packets in flight: enough to see how the network fares, and for the connection to live. A
 * suspended one goes on when the law says so, a killed one waits for its program to close it.
 */
#define CC_NAME sluice_datcp
#define CC_EXACT_ECHO 0
#include "cc_ops.bpf.h"

#define QUENCHED_CWND SL_MIN_CWND

static __always_inline struct sl_datcp_goal goal_of(const struct told *told, const struct window_record *w)
{
	struct sl_datcp_goal goal = {
		.timed = (w->flags & WINDOW_HAS_DEADLINE) && (w->flags & WINDOW_HAS_SIZE),
		.may_quench = told->quench != SLUICE_QUENCH_NEVER,
	};

	if (told->fields & SLUICE_HAS_IMPORTANCE) {
		goal.importance_milli = told->importance_milli;
		goal.importance_share_milli = told->importance_share_milli;
	}
	return goal;
}

static __always_inline void quenched(struct socket_flow *flow, struct window_record *w)
{
	w->phase = flow->told.quench == SLUICE_QUENCH_KILL ? SLUICE_KILLED : SLUICE_SUSPENDED;
	flow->state.quenches++;
	sl_datcp_suspended(&flow->datcp, w->rtt_us);
}

static __always_inline void sending(struct socket_flow *flow, struct window_record *w)
{
	struct sl_datcp_goal goal = goal_of(&flow->told, w);
	struct sl_datcp_window window = {
		.acked_bytes = w->acked_bytes,
		.took_us = w->took_us,
		.remaining_bytes = w->remaining_bytes,
		.left_us = sl_datcp_left_us(w->left_ns / 1000, w->rtt_us),
		.slow_start = w->flags & WINDOW_SLOW_START,
		.random = w->random,
	};

	if (sl_datcp_window_ended(&flow->datcp, &goal, &window))
		quenched(flow, w);
}

static __always_inline void waiting(const struct tcp_sock *tp, struct socket_flow *flow, struct window_record *w)
{
	if (w->phase == SLUICE_SUSPENDED &&
	    sl_datcp_may_resume(&flow->datcp, w->marked, w->rtt_us, tp->rtt_min.s[0].v)) {
		w->phase = SLUICE_SENDING;
		flow->state.resumes++;
	}
}

static __always_inline void law(struct sock *sk, struct socket_flow *flow, struct window_record *w)
{
	w->penalty_q20 = SL_DCTCP_ALPHA_ONE; /* b = 1/2 */
	if (!flow)
		return;
	w->phase = flow->state.phase;
	w->random = bpf_get_prandom_u32();
	if (w->phase == SLUICE_SENDING)
		sending(flow, w);
	else
		waiting(tcp_sk(sk), flow, w);
	w->rate_bytes_per_s = flow->datcp.average_bytes_per_s;
	w->urgency_q16 = flow->datcp.urgency_q16;
	w->precedence_q16 = flow->datcp.precedence_q16;
	w->penalty_q20 = sl_datcp_decrease_q16(w->precedence_q16) << 5; /* 2 b, from Q16 to Q20 */
	w->bound = w->phase == SLUICE_SENDING ? 0 : QUENCHED_CWND;
}
