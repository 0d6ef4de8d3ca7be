/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What a host's policy says to our congestion controls, by network namespace: each host of a testbed
 * is one. The host's agent writes its own entry (dataplane/congestion.py). A namespace made later, for
 * example of a container, inherits the default control of the machine's first namespace. So it has the
 * machine's entry, which the agent in that namespace writes. The machine has one such map
 * (dataplane/shared_resource.py).
 */
#ifndef SLUICE_HOST_BPF_H
#define SLUICE_HOST_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "../laws/hooks.h"
#include "sluice.h"
#include "tag.h"

#define HOSTS_MAX 4096
#define MACHINE 0 /* no namespace has this cookie */

/* include/net/tcp.h: macros, so not in BTF. */
#define TCP_ECN_AGREED 0x11 /* on ECN of RFC 3168 or on AccECN */
#define SOL_TCP 6
#define TCP_CONGESTION 13

struct host_settings {
	__u32 growth;				  /* packets that a window of data without marks adds */
	__u32 forgets_late;			  /* past its deadline, a flow continues as one without a deadline */
	char control[SLUICE_CONTROL_BYTES];	  /* the control of Sluice for new connections; empty: none */
	char without_ecn[SLUICE_CONTROL_BYTES];	  /* the control of connections whose other end refuses ECN */
	struct tag_settings tags;		  /* of sockets that carry their tags themselves (socket_tag.bpf.h) */
	struct tag_written written[TAG_DSCPS];	  /* as in tag.h; all TAG_NONE: sockets carry no tags */
	char parameters_of[SLUICE_CONTROL_BYTES]; /* the control from a file that has … */
	__u32 parameters[SL_PARAMETERS_MAX];	  /* … these values, in the order of its file (laws/hooks.h) */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, HOSTS_MAX);
	__type(key, __u64); /* cookie of the namespace, which no later namespace gets; or MACHINE */
	__type(value, struct host_settings);
} sluice_host_4 SEC(".maps"); /* 4: the layout; a new layout gets a new number */

/* NULL if neither the namespace with this cookie nor the machine has an entry. */
static __always_inline const struct host_settings *host_with(__u64 cookie)
{
	__u64 machine = MACHINE;

	return bpf_map_lookup_elem(&sluice_host_4, &cookie) ?: bpf_map_lookup_elem(&sluice_host_4, &machine);
}

static __always_inline const struct host_settings *host_of(const struct sock *sk)
{
	return host_with(BPF_CORE_READ(sk, __sk_common.skc_net.net, net_cookie));
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

/*
 * Give a connection without ECN the control of the host before ours, or Reno. `ctx` is what the
 * program's kind passes to bpf_setsockopt(). Returns 0, or an error.
 */
static __always_inline int use_control_without_ecn(void *ctx, const struct sock *sk)
{
	const struct host_settings *host = host_of(sk);
	char name[SLUICE_CONTROL_BYTES] = {}, reno[] = "reno";

	if (host)
		__builtin_memcpy(name, host->without_ecn, sizeof(name));
	if (name[0] && !bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
		return 0;
	return bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
}

#endif
