/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* A congestion control whose law is a function of the window's record: sl_control_CC. */
#ifndef SLUICE_CC_WINDOW_LAW_BPF_H
#define SLUICE_CC_WINDOW_LAW_BPF_H

#include "cc_ops.bpf.h"

static __always_inline void law(struct sock *sk, struct socket_flow *flow, struct sl_window_record *w)
{
	CC_JOIN(sl_control_, CC)(w);
}

#endif
