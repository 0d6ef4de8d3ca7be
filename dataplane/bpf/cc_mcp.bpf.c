// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* sluice_mcp: Karuna's control of deadline flows. The law is laws/mcp.h; without a deadline or a size it is DCTCP. */
#define CC_NAME sluice_mcp
#define CC_EXACT_ECHO 1
#include "cc_ops.bpf.h"
#include "../laws/mcp.h"

static __always_inline void law(struct sock *sk, struct socket_flow *flow, struct window_record *w)
{
	w->penalty_q20 = w->alpha_q20;
	if ((w->flags & WINDOW_HAS_DEADLINE) && (w->flags & WINDOW_HAS_SIZE))
		w->bound = sl_mcp_bound(w->remaining_bytes, w->left_ns / 1000, w->rtt_us, w->mss_bytes);
}
