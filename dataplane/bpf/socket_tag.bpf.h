/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Tags that a socket carries itself: its DSCP changes with the tag, and TCP writes it into each packet, whatever
 * namespace, bridge, VLAN or tunnel follows. They serve where no tagger (tag.bpf.c) sees the packets of the socket,
 * for example those of a container that the host routes.
 *
 *   SYN              tag 1, unless the program has chosen a DSCP              sockopt.bpf.c
 *   data             chosen before the kernel builds packets: all packets
 *                    that may leave then have the tag of the last             cc_ops.bpf.h, a control of ours
 *   ACKs             the tag of the data that this end has sent last
 *   SYN-ACK, FIN of a direction that has carried no data, all of a connection without a control of ours    none
 *
 * SYN-ACKs have the DSCP of their listener. That would outlive Sluice, and so would its connections' after that.
 * So no packet promises more than that its flow has sent as little as its tag says: with the tag of the first, a whole
 * window could leave under tag 1, and the controller would take its host for one that sends false tags.
 *
 * The kernel lets BPF programs set no DSCP on a socket of IPv6 that is connected by IPv4, so it has none.
 */
#ifndef SLUICE_SOCKET_TAG_BPF_H
#define SLUICE_SOCKET_TAG_BPF_H

#include "host.bpf.h"
#include "../laws/tags.gen.h"

/* Macros of the kernel, which BTF lacks. */
#define AF_INET 2
#define AF_INET6 10
#define SOL_IP 0
#define SOL_IPV6 41
#define SOL_SOCKET 1
#define IP_TOS 1
#define IPV6_TCLASS 67
#define SO_PRIORITY 12
#define ECN_BITS 2

static __always_inline __u32 socket_tos(const struct sock *sk)
{
	const struct inet_sock *inet = (const struct inet_sock *)sk;

	return BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET ? BPF_CORE_READ(inet, tos)
								    : BPF_CORE_READ(inet, pinet6, tclass);
}

static __always_inline __u32 socket_dscp(const struct sock *sk)
{
	return socket_tos(sk) >> ECN_BITS;
}

/*
 * `ctx` is what the program's kind passes to bpf_setsockopt(). The kernel would derive the priority of packets on this
 * host from the DSCP, so the socket's priority is set again.
 */
static __always_inline void set_dscp(void *ctx, const struct sock *sk, __u32 dscp)
{
	int tos = dscp << ECN_BITS, priority = BPF_CORE_READ(sk, sk_priority);

	if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET)
		bpf_setsockopt(ctx, SOL_IP, IP_TOS, &tos, sizeof(tos));
	else
		bpf_setsockopt(ctx, SOL_IPV6, IPV6_TCLASS, &tos, sizeof(tos));
	bpf_setsockopt(ctx, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority));
}

static __always_inline int sockets_carry_tags(const struct host_settings *host)
{
	return host && host->written[SL_TAG_ATTAINED_FIRST].as < TAG_DSCPS;
}

/*
 * Let the socket carry a tag, or the DSCP that stands for it if it is reserved. A socket whose program has chosen a
 * reserved DSCP keeps that.
 */
static __always_inline void carry_tag(void *ctx, const struct sock *sk, const struct host_settings *host, __u32 tag)
{
	__u32 before = socket_dscp(sk), dscp;

	if (tag >= TAG_DSCPS || before >= TAG_DSCPS || (before && host->written[before].reserved))
		return;
	dscp = host->written[tag].as;
	if (dscp < TAG_DSCPS && dscp != before)
		set_dscp(ctx, sk, dscp);
}

#endif
