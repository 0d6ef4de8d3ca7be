// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* sluice_dctcp: DCTCP as a kernel congestion control (RFC 8257). The law is laws/dctcp.h. */
#define CC_NAME sluice_dctcp
#define CC_EXACT_ECHO 1
#include "cc_ops.bpf.h"

static __always_inline void law(struct sock *sk, struct socket_flow *flow, struct sl_window_record *w)
{
	sl_control_dctcp(w);
}
