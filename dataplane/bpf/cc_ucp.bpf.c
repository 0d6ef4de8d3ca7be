// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* sluice_ucp: Aemon's urgency-based congestion control. The law is laws/ucp.h; without a deadline it is DCTCP. */
#define CC_NAME sluice_ucp
#define CC_EXACT_ECHO 1
#include "cc_ops.bpf.h"
#include "../laws/ucp.h"

static __always_inline void law(struct sock *sk, struct socket_flow *flow, struct window_record *w)
{
	if (w->flags & WINDOW_HAS_DEADLINE)
		w->urgency_q16 = sl_ucp_urgency_q16(w->at_ns - w->elapsed_ns, w->at_ns + w->left_ns, w->at_ns);
	w->penalty_q20 = sl_ucp_penalty_q20(w->alpha_q20, w->urgency_q16);
}
