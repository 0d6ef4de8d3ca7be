// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* sluice_d2tcp: D2TCP. The law is laws/d2tcp.h; without a deadline or a size it is DCTCP. */
#define CC_NAME sluice_d2tcp
#define CC_EXACT_ECHO 1
#include "cc_ops.bpf.h"
#include "../laws/d2tcp.h"

static __always_inline void law(struct sock *sk, struct socket_flow *flow, struct window_record *w)
{
	if ((w->flags & WINDOW_HAS_DEADLINE) && (w->flags & WINDOW_HAS_SIZE))
		w->urgency_q16 = sl_d2tcp_imminence_q16(w->remaining_bytes, w->left_ns / 1000,
							(__u64)w->cwnd * w->mss_bytes, w->rtt_us);
	w->penalty_q20 = sl_d2tcp_penalty_q20(w->alpha_q20, w->urgency_q16);
}
