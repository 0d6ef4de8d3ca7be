/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The way from an IP header to the transport header, over options and extension headers, and into a tunnel. */
#ifndef SLUICE_TRANSPORT_BPF_H
#define SLUICE_TRANSPORT_BPF_H

#include "packet.bpf.h"

#define IPV6_EXTENSIONS_MAX 4

#define VXLAN_PORT 4789
#define VXLAN_PORT_OF_LINUX 8472 /* unless the device has another */
#define GENEVE_PORT 6081
#define GENEVE_OPTIONS 0x3F /* their length, in words */
#define TUNNEL_HEADER 8	    /* of both, without Geneve's options */

/* The places of an IP header and of the transport header after it. */
struct transport {
	__u32 ip_offset;
	__u32 offset;
	__be16 ethertype;
	__u8 protocol;
	__u8 later_fragment; /* there is no transport header here, only payload */
};

static __always_inline int ipv4_transport(struct __sk_buff *skb, struct transport *t)
{
	const struct iphdr *ip = header_at(skb, t->ip_offset, sizeof(*ip));

	if (!ip)
		return -EFAULT;
	t->offset = t->ip_offset + ip->ihl * 4;
	t->protocol = ip->protocol;
	t->later_fragment = (bpf_ntohs(ip->frag_off) & IPV4_FRAGMENT_OFFSET) != 0;
	return 0;
}

/* Skip an extension header. 1 if there was one and `t` is after it; 0 if `t` is at the transport. */
static __always_inline int ipv6_skip_extension(struct __sk_buff *skb, struct transport *t)
{
	/* Other headers begin alike: next header, then the length in 8 octets after the first 8. */
	const struct frag_hdr *header;

	if (t->protocol != IPPROTO_HOPOPTS && t->protocol != IPPROTO_ROUTING && t->protocol != IPPROTO_DSTOPTS &&
	    t->protocol != IPPROTO_FRAGMENT)
		return 0;
	header = header_at(skb, t->offset, sizeof(*header));
	if (!header)
		return -EFAULT;
	if (t->protocol == IPPROTO_FRAGMENT) {
		t->later_fragment = (bpf_ntohs(header->frag_off) & ~7) != 0;
		t->offset += sizeof(*header);
	} else {
		t->offset += (header->reserved + 1) * 8;
	}
	t->protocol = header->nexthdr;
	return 1;
}

/* A function of its own, because several places call it. */
static __noinline int ipv6_transport(struct __sk_buff *skb, struct transport *t)
{
	const struct ipv6hdr *ip = header_at(skb, t->ip_offset, sizeof(*ip));
	int i, err;

	if (!ip)
		return -EFAULT;
	t->offset = t->ip_offset + sizeof(*ip);
	t->protocol = ip->nexthdr;
	t->later_fragment = 0;
#pragma unroll /* Linux 6.1 refuses a loop whose end is no jump */
	for (i = 0; i < IPV6_EXTENSIONS_MAX && !t->later_fragment; i++) {
		err = ipv6_skip_extension(skb, t);
		if (err <= 0)
			return err;
	}
	return 0;
}

/* Fill `t`, whose ip_offset and ethertype are known. */
static __always_inline int find_transport(struct __sk_buff *skb, struct transport *t)
{
	if (t->ethertype == bpf_htons(ETH_P_IP))
		return ipv4_transport(skb, t);
	return t->ethertype == bpf_htons(ETH_P_IPV6) ? ipv6_transport(skb, t) : -EPROTONOSUPPORT;
}

/* Where the Ethernet frame inside a datagram of VXLAN (RFC 7348) or Geneve (RFC 8926) begins; 0 if it is none. */
static __always_inline __u32 tunnelled_frame(struct __sk_buff *skb, const struct transport *t)
{
	__u32 inside = t->offset + sizeof(struct udphdr) + TUNNEL_HEADER;
	const struct udphdr *udp;
	const __u8 *geneve;

	if (t->protocol != IPPROTO_UDP || t->later_fragment)
		return 0;
	udp = header_at(skb, t->offset, sizeof(*udp));
	if (udp && (udp->dest == bpf_htons(VXLAN_PORT) || udp->dest == bpf_htons(VXLAN_PORT_OF_LINUX)))
		return inside;
	if (!udp || udp->dest != bpf_htons(GENEVE_PORT))
		return 0;
	geneve = header_at(skb, t->offset + sizeof(*udp), sizeof(*geneve));
	return geneve ? inside + (*geneve & GENEVE_OPTIONS) * 4 : 0;
}

/* Go on to the packet in this frame. */
static __always_inline int find_transport_in_frame(struct __sk_buff *skb, __u32 frame, struct transport *t)
{
	const struct ethhdr *inner = header_at(skb, frame, sizeof(*inner));

	if (!inner)
		return -EFAULT;
	t->ethertype = inner->h_proto;
	t->ip_offset = frame + ETH_HLEN;
	return find_transport(skb, t);
}

/* Load the source or destination address. One of IPv4 fills the first word. */
static __always_inline int load_address(struct __sk_buff *skb, const struct transport *t, int is_source, __be32 *to)
{
	if (t->ethertype == bpf_htons(ETH_P_IP))
		return bpf_skb_load_bytes(
			skb,
			t->ip_offset + (is_source ? offsetof(struct iphdr, saddr) : offsetof(struct iphdr, daddr)),
			to, 4);
	return bpf_skb_load_bytes(
		skb, t->ip_offset + (is_source ? offsetof(struct ipv6hdr, saddr) : offsetof(struct ipv6hdr, daddr)),
		to, 16);
}

#endif
