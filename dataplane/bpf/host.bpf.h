/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What a host's policy says to our congestion controls, by network namespace: each host of a testbed
 * is one. The host's agent writes its own entry (dataplane/congestion.py). The machine has one such map
 * (dataplane/shared_resource.py).
 */
#ifndef SLUICE_HOST_BPF_H
#define SLUICE_HOST_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define HOSTS_MAX 4096

struct host_settings {
	__u32 growth;	    /* packets that a window of data without marks adds */
	__u32 forgets_late; /* past its deadline, a flow continues as one without a deadline */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, HOSTS_MAX);
	__type(key, __u32); /* inode of the namespace */
	__type(value, struct host_settings);
} sluice_host_1 SEC(".maps"); /* 1: the layout; a new layout gets a new number */

/* NULL in a namespace without an entry. */
static __always_inline const struct host_settings *host_of(const struct sock *sk)
{
	__u32 namespace = sk->__sk_common.skc_net.net->ns.inum;

	return bpf_map_lookup_elem(&sluice_host_1, &namespace);
}

/* 1, as Reno, unless the policy says another number. */
static __always_inline __u32 growth_of(const struct sock *sk)
{
	const struct host_settings *host = host_of(sk);

	return host && host->growth ? host->growth : 1;
}

static __always_inline int forgets_late(const struct sock *sk)
{
	const struct host_settings *host = host_of(sk);

	return host && host->forgets_late;
}

#endif
