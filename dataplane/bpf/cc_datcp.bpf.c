// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * sluice_datcp: DATCP with quenching. The law is laws/datcp.h; its receiver is an ordinary ECN
 * receiver (RFC 3168).
 *
 * A quenched flow keeps two packets in flight. They show marks and round trips, and keep the
 * connection alive. A suspended flow continues when the law allows it. A killed flow waits until
 * its program closes it.
 */
#define CC datcp
#define CC_EXACT_ECHO 0
#define CC_READS_MARKS 1
#define CC_GROWS 0
#include "cc_ops.bpf.h"

static __always_inline struct sl_datcp_goal goal_of(const struct declared_flow *declared,
						    const struct sl_window_record *w)
{
	struct sl_datcp_goal goal = {
		.timed = sl_window_has(w, SL_WINDOW_HAS_DEADLINE | SL_WINDOW_HAS_SIZE),
		.may_quench = declared->quench != SLUICE_QUENCH_NEVER,
	};

	if (declared->fields & SLUICE_HAS_IMPORTANCE) {
		goal.importance_milli = declared->importance_milli;
		goal.importance_share_milli = declared->importance_share_milli;
	}
	return goal;
}

static __always_inline void law(struct sock *sk, struct socket_flow *flow, struct sl_window_record *w)
{
	struct sl_datcp_goal goal;
	__u32 before;

	w->penalty_q20 = SL_DCTCP_ALPHA_ONE; /* b = 1/2 */
	if (!flow)
		return;
	goal = goal_of(&flow->declared, w);
	before = w->phase = flow->state.phase;
	w->random = bpf_get_prandom_u32();
	sl_control_datcp(&flow->datcp, &goal, flow->declared.quench, tcp_sk(sk)->rtt_min.s[0].v, w);
	flow->state.quenches += before == SL_SENDING && w->phase != SL_SENDING;
	flow->state.resumes += before == SL_SUSPENDED && w->phase == SL_SENDING;
}
