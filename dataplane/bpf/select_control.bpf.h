/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Selection of a socket's congestion control in the setsockopt hook, with TCP_CONGESTION's
 * permissions.
 */
#ifndef SLUICE_SELECT_CONTROL_BPF_H
#define SLUICE_SELECT_CONTROL_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "host.bpf.h"

/* Macros of the kernel, which BTF lacks. */
#define EPERM 1
#define EINVAL 22
#define TCP_CONG_NEEDS_ECN 0x2
#define CAP_NET_ADMIN 12

static __always_inline int same_name(const char *a, const char *b)
{
	for (int i = 0; i < SLUICE_CONTROL_BYTES; i++) {
		if (a[i] != b[i])
			return 0;
		if (!a[i])
			return 1;
	}
	return 1;
}

static __always_inline const struct tcp_congestion_ops *control_of(struct tcp_sock *tp)
{
	return BPF_CORE_READ((struct inet_connection_sock *)tp, icsk_ca_ops);
}

static __always_inline void control_name(const struct tcp_congestion_ops *ops, char name[SLUICE_CONTROL_BYTES])
{
	bpf_probe_read_kernel(name, SLUICE_CONTROL_BYTES, ops->name);
}

static __always_inline int is_ours(const char *name)
{
	const char prefix[] = "sluice_";

	for (unsigned int i = 0; i < sizeof(prefix) - 1; i++)
		if (name[i] != prefix[i])
			return 0;
	return 1;
}

static __always_inline struct net *net_of(struct tcp_sock *tp)
{
	return BPF_CORE_READ((struct sock *)tp, __sk_common.skc_net.net);
}

static __always_inline int caller_is_net_admin(struct tcp_sock *tp)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	kernel_cap_t capabilities = BPF_CORE_READ(task, cred, cap_effective);

	return BPF_CORE_READ(task, cred, user_ns) == BPF_CORE_READ(net_of(tp), user_ns) &&
	       *(__u64 *)&capabilities >> CAP_NET_ADMIN & 1;
}

/*
 * The kernel lets BPF programs select controls that it refuses to unprivileged programs. So this
 * checks as TCP_CONGESTION would: our controls, the socket's and the namespace's own are open to
 * all programs.
 */
static __always_inline int may_select(struct tcp_sock *tp, const char *name)
{
	char allowed[SLUICE_CONTROL_BYTES];

	if (is_ours(name))
		return 1;
	control_name(control_of(tp), allowed);
	if (same_name(name, allowed))
		return 1;
	control_name(BPF_CORE_READ(net_of(tp), ipv4.tcp_congestion_control), allowed);
	return same_name(name, allowed) || caller_is_net_admin(tp);
}

/*
 * On a connection without ECN, a control that needs ECN changes to another in its `init`
 * (cc_fell_back). The kernel forbids that during a selection from here, so this function does it.
 */
static __always_inline void without_ecn_fall_back(struct bpf_sock *sk, struct tcp_sock *tp, __u32 state)
{
	if (state != TCP_CLOSE && state != TCP_SYN_SENT && !(BPF_CORE_READ(tp, ecn_flags) & TCP_ECN_AGREED) &&
	    BPF_CORE_READ(control_of(tp), flags) & TCP_CONG_NEEDS_ECN)
		use_control_without_ecn(sk, (struct sock *)tp);
}

static __always_inline int select_control(struct bpf_sock *sk, struct tcp_sock *tp, __u32 state, char *name)
{
	if (!may_select(tp, name))
		return -EPERM;
	if (bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, name, SLUICE_CONTROL_BYTES))
		return -EINVAL;
	without_ecn_fall_back(sk, tp, state);
	return 0;
}

#endif
