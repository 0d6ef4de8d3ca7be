/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Macros that BTF lacks, and access to the IP header at the clsact hook. For Ethernet devices. */
#ifndef SLUICE_PACKET_BPF_H
#define SLUICE_PACKET_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ETH_HLEN 14
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86DD
#define ETH_P_8021Q 0x8100
#define VLAN_VID_MASK 0x0FFF

/* Not TC_ACT_OK, so that filters of other programs after ours run, too. */
#define TC_ACT_UNSPEC (-1)
/* The packet ends here without an error for its sender, as in a switch. */
#define TC_ACT_STOLEN 4

#define IPPROTO_HOPOPTS 0
#define IPPROTO_ROUTING 43
#define IPPROTO_FRAGMENT 44
#define IPPROTO_ICMPV6 58
#define IPPROTO_DSTOPTS 60

#define ENOMEM 12
#define EPROTONOSUPPORT 93

#define DSCP_SHIFT 2
#define ECN_MASK 3
#define ECN_NOT_ECT 0
#define ECN_CE 3

#define IPV4_FRAGMENT_OFFSET 0x1FFF
#define IPV6_TCLASS_SHIFT 4
#define IPV6_TCLASS_MASK 0x0FF0

static __always_inline int is_ip(const struct __sk_buff *skb)
{
	return skb->protocol == bpf_htons(ETH_P_IP) || skb->protocol == bpf_htons(ETH_P_IPV6);
}

/* DSCP and ECN (the byte called TOS or traffic class) of the IP header there, or a negative error. */
static __always_inline int tos_at(struct __sk_buff *skb, __u32 ip_offset, __be16 ethertype)
{
	__be16 first;
	int err = bpf_skb_load_bytes(skb, ip_offset, &first, sizeof(first));

	if (err)
		return err;
	if (ethertype == bpf_htons(ETH_P_IP))
		return bpf_ntohs(first) & 0xFF;
	return (bpf_ntohs(first) & IPV6_TCLASS_MASK) >> IPV6_TCLASS_SHIFT;
}

/* The same of an IP packet. */
static __always_inline int ip_tos(struct __sk_buff *skb)
{
	return tos_at(skb, ETH_HLEN, skb->protocol);
}

static __always_inline int ipv4_set_tos(struct __sk_buff *skb, __u8 from, __u8 to)
{
	int err = bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), bpf_htons(from), bpf_htons(to),
				      sizeof(__be16));

	return err ?: bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, tos), &to, sizeof(to), 0);
}

static __always_inline int ipv6_set_tclass(struct __sk_buff *skb, __u8 to)
{
	__be16 first;
	int err = bpf_skb_load_bytes(skb, ETH_HLEN, &first, sizeof(first));

	if (err)
		return err;
	first = bpf_htons((bpf_ntohs(first) & ~IPV6_TCLASS_MASK) | to << IPV6_TCLASS_SHIFT);
	return bpf_skb_store_bytes(skb, ETH_HLEN, &first, sizeof(first), 0);
}

/* Write the DSCP of an IP packet whose `ip_tos` is known, and keep its ECN bits. */
static __always_inline int ip_set_dscp(struct __sk_buff *skb, __u8 tos, __u8 dscp)
{
	__u8 to = dscp << DSCP_SHIFT | (tos & ECN_MASK);

	if (to == tos)
		return 0;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		return ipv4_set_tos(skb, tos, to);
	return ipv6_set_tclass(skb, to);
}

#endif
