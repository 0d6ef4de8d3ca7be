// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* sluice_d2tcp: D2TCP. The law is laws/d2tcp.h; DCTCP without deadline or size. */
#define CC_NAME sluice_d2tcp
#define CC_EXACT_ECHO 1
#include "cc_ops.bpf.h"

static __always_inline void law(struct sock *sk, struct socket_flow *flow, struct sl_window_record *w)
{
	sl_control_d2tcp(w);
}
