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
#define EFAULT 14
#define EPROTONOSUPPORT 93

#define DSCP_SHIFT 2
#define ECN_MASK 3
#define ECN_NOT_ECT 0
#define ECN_CE 3

#define HEADERS_MAX 0x7FFF /* no header begins later; the verifier knows no place beyond 0xFFFF */
#define IPV4_FRAGMENT_OFFSET 0x1FFF
#define IPV6_TCLASS_SHIFT 4
#define IPV6_TCLASS_MASK 0x0FF0

/* A map whose keys are numbers. */
#define MAP_BY_NUMBER(name, kind, entries, of)                                                                       \
	struct {                                                                                                     \
		__uint(type, BPF_MAP_TYPE_##kind);                                                                   \
		__uint(max_entries, entries);                                                                        \
		__type(key, __u32);                                                                                  \
		__type(value, of);                                                                                   \
	} name SEC(".maps")

static __always_inline int is_ip(const struct __sk_buff *skb)
{
	return skb->protocol == bpf_htons(ETH_P_IP) || skb->protocol == bpf_htons(ETH_P_IPV6);
}

/* Two fields of struct __sk_buff. Their places never change, and clang 14 computes them apart if it may relocate them. */
struct packet {
	__u32 other[19];
	__u32 data;
	__u32 data_end;
};

/*
 * The header of so many bytes there, until the next call; NULL if the packet ends before. The program reads headers in
 * the packet's first part without a call of the kernel, and those behind it are moved there.
 */
static __always_inline const void *header_at(struct __sk_buff *skb, __u32 offset, __u32 bytes)
{
	const volatile struct packet *packet = (void *)skb;
	const void *header;

	if (offset > HEADERS_MAX)
		return NULL;
	__asm__("" : "+r"(offset)); /* the verifier needs the addition after the comparison */
	header = (void *)(long)packet->data + offset;
	if (header + bytes <= (void *)(long)packet->data_end)
		return header;
	if (bpf_skb_pull_data(skb, offset + bytes))
		return NULL;
	header = (void *)(long)packet->data + offset;
	return header + bytes <= (void *)(long)packet->data_end ? header : NULL;
}

/* DSCP and ECN (the byte called TOS or traffic class) of the IP header there, or a negative error. */
static __always_inline int tos_at(struct __sk_buff *skb, __u32 ip_offset, __be16 ethertype)
{
	const __be16 *first = header_at(skb, ip_offset, sizeof(*first));

	if (!first)
		return -EFAULT;
	if (ethertype == bpf_htons(ETH_P_IP))
		return bpf_ntohs(*first) & 0xFF;
	return (bpf_ntohs(*first) & IPV6_TCLASS_MASK) >> IPV6_TCLASS_SHIFT;
}

/* The same of an IP packet. */
static __always_inline int ip_tos(struct __sk_buff *skb)
{
	return tos_at(skb, ETH_HLEN, skb->protocol);
}

/* Write the header up to the checksum, which changes by the difference (RFC 1624). */
static __always_inline int ipv4_set_tos(struct __sk_buff *skb, __u8 from, __u8 to)
{
	const struct iphdr *before = header_at(skb, ETH_HLEN, sizeof(*before));
	struct iphdr ip;
	__u32 sum;

	if (!before)
		return -EFAULT;
	ip = *before;
	sum = (__u16)~ip.check + (__u16)~bpf_htons(from) + bpf_htons(to);
	sum = (sum & 0xFFFF) + (sum >> 16);
	ip.tos = to;
	ip.check = ~((sum & 0xFFFF) + (sum >> 16));
	return bpf_skb_store_bytes(skb, ETH_HLEN, &ip, offsetof(struct iphdr, check) + sizeof(ip.check), 0);
}

static __always_inline int ipv6_set_tclass(struct __sk_buff *skb, __u8 to)
{
	const __be16 *before = header_at(skb, ETH_HLEN, sizeof(*before));
	__be16 first;

	if (!before)
		return -EFAULT;
	first = bpf_htons((bpf_ntohs(*before) & ~IPV6_TCLASS_MASK) | to << IPV6_TCLASS_SHIFT);
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
