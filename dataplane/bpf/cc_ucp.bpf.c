// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* sluice_ucp: Aemon's urgency-based control. The law is laws/ucp.h; DCTCP without a deadline. */
#define CC_NAME sluice_ucp
#define CC_EXACT_ECHO 1
#include "cc_ops.bpf.h"

static __always_inline void law(struct sock *sk, struct socket_flow *flow, struct sl_window_record *w)
{
	sl_control_ucp(w);
}
