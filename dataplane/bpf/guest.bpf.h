/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Tags of a guest, for example a virtual machine. This host sees its packets, but not its sockets. So the program finds
 * the state of a flow by addresses and ports, at the interface (for example a tap) from which the packets come.
 *
 *   SYN, SYN-ACK                     begin a connection
 *   a segment of a connection        by sequence numbers, as for sockets (laws/tag.h)
 *   … whose SYN was never seen, or   the last, until the flow has been idle. Its FIN is untagged, because no one
 *     whose state gave way to others     knows the size of the flow that it ends.
 *   UDP                              by the sum of the payloads. A datagram without state begins a flow.
 *   a reserved DSCP                  stays
 *   all else                         DSCP 0: what a guest wrote there is no tag
 *
 * An acknowledgement on its way to the guest is activity, as data from the guest is: the round-trip time is not known
 * here, and a flow with a small window must not count as idle before the guest can have seen the acknowledgement.
 */
#ifndef SLUICE_GUEST_BPF_H
#define SLUICE_GUEST_BPF_H

#include "transport.bpf.h"
#include "../laws/tag.h"

#define GUEST_FLOWS_MAX 65536
/* In tc_index: a packet that the program of a guest's interface has seen. Devices and routes keep it. */
#define OF_GUEST 0x51C0

struct guest_key {
	__u32 ifindex;
	__u16 vlan;
	__u8 protocol;
	__u8 padding;
	__be32 guest[4];
	__be32 other[4];
	__be16 guest_port; /* ports are 0 in fragments after the first */
	__be16 other_port;
};

struct guest_flow {
	struct sl_tag_state tag;
	__u32 acked_seq;
	__u32 padding;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, GUEST_FLOWS_MAX);
	__type(key, struct guest_key);
	__type(value, struct guest_flow);
} guest_flows SEC(".maps");

/* Where an IP packet ends. An Ethernet frame may be longer, by its padding. */
static __always_inline __u32 ip_end(struct __sk_buff *skb)
{
	int is_ipv4 = skb->protocol == bpf_htons(ETH_P_IP);
	__u32 end, place = is_ipv4 ? offsetof(struct iphdr, tot_len) : offsetof(struct ipv6hdr, payload_len);
	__be16 length;

	if (bpf_skb_load_bytes(skb, ETH_HLEN + place, &length, sizeof(length)) || !length)
		return skb->len;
	end = ETH_HLEN + bpf_ntohs(length) + (is_ipv4 ? 0 : sizeof(struct ipv6hdr));
	return end < skb->len ? end : skb->len;
}

/* Fill the key of a packet from or to a guest. Returns an error if the packet has no such addresses. */
static __always_inline int guest_key_of(struct __sk_buff *skb, const struct transport *t, int from_guest,
					struct guest_key *key)
{
	__be16 ports[2] = {}; /* source, destination */
	int err = load_address(skb, t, from_guest, key->guest);

	err = err ?: load_address(skb, t, !from_guest, key->other);
	if (!err && !t->later_fragment)
		err = bpf_skb_load_bytes(skb, t->offset, ports, sizeof(ports));
	key->ifindex = skb->ifindex;
	key->vlan = skb->vlan_present ? skb->vlan_tci & VLAN_VID_MASK : 0;
	key->protocol = t->protocol;
	key->guest_port = ports[!from_guest];
	key->other_port = ports[from_guest];
	return err;
}

static __always_inline struct guest_flow *guest_flow_from(const struct guest_key *key, const struct guest_flow *fresh)
{
	bpf_map_update_elem(&guest_flows, key, fresh, BPF_ANY);
	return bpf_map_lookup_elem(&guest_flows, key);
}

/* Tag of a guest's TCP segment, SL_TAG_UNTAGGED, or a negative error. */
static __always_inline int guest_tcp_tag(struct __sk_buff *skb, const struct transport *t,
					 const struct guest_key *key, __u64 gap_ns)
{
	struct guest_flow *flow = bpf_map_lookup_elem(&guest_flows, key), fresh = {};
	__u32 headers, data_bytes, seq, end = ip_end(skb);
	__u64 attained, now_ns = bpf_ktime_get_ns();
	struct tcphdr tcp;
	int err = bpf_skb_load_bytes(skb, t->offset, &tcp, sizeof(tcp));

	if (err)
		return err;
	headers = t->offset + tcp.doff * 4;
	data_bytes = end > headers ? end - headers : 0;
	seq = bpf_ntohl(tcp.seq) + tcp.syn;
	if (tcp.syn || (!flow && data_bytes)) {
		fresh.acked_seq = seq;
		if (!tcp.syn)
			sl_tag_unseen(&fresh.tag, seq, now_ns);
		flow = guest_flow_from(key, &fresh);
	}
	if (tcp.syn && !data_bytes)
		return SL_TAG_ATTAINED_FIRST;
	if (!flow)
		return tcp.fin ? SL_TAG_UNTAGGED : SL_TAG_ATTAINED_LAST;
	attained = sl_tag_segment(&flow->tag, seq, data_bytes, flow->acked_seq, now_ns, gap_ns);
	if (tcp.fin && (!sl_tag_carried_data(&flow->tag) || sl_tag_is_unseen(&flow->tag)))
		return SL_TAG_UNTAGGED;
	return sl_attained_tag(sl_tag_shown(attained, data_bytes));
}

/* Tag of a guest's datagram or a fragment of one, or a negative error. */
static __always_inline int guest_udp_tag(struct __sk_buff *skb, const struct transport *t,
					 const struct guest_key *key, __u64 gap_ns)
{
	__u32 headers = t->offset + (t->later_fragment ? 0 : sizeof(struct udphdr)), end = ip_end(skb);
	__u32 data_bytes = end > headers ? end - headers : 0;
	struct guest_flow *flow = bpf_map_lookup_elem(&guest_flows, key), fresh = {};
	__u64 attained;

	if (!flow)
		flow = guest_flow_from(key, &fresh);
	if (!flow)
		return -ENOMEM;
	attained = sl_tag_datagram(&flow->tag, data_bytes, bpf_ktime_get_ns(), gap_ns);
	return sl_attained_tag(sl_tag_shown(attained, data_bytes));
}

/* Tag of a packet of a guest; SL_TAG_UNTAGGED if it has none. Fills `key` as far as the packet has such places. */
static __always_inline int guest_tag(struct __sk_buff *skb, struct guest_key *key, __u64 gap_ns)
{
	struct transport t = {.ip_offset = ETH_HLEN, .ethertype = skb->protocol};
	int tag = SL_TAG_UNTAGGED;

	if (find_transport(skb, &t))
		return SL_TAG_UNTAGGED;
	key->protocol = t.protocol;
	if ((t.protocol != IPPROTO_TCP && t.protocol != IPPROTO_UDP) || guest_key_of(skb, &t, 1, key))
		return SL_TAG_UNTAGGED;
	if (t.protocol == IPPROTO_UDP)
		tag = guest_udp_tag(skb, &t, key, gap_ns);
	else if (!t.later_fragment)
		tag = guest_tcp_tag(skb, &t, key, gap_ns);
	return tag < 0 ? SL_TAG_UNTAGGED : tag;
}

/* Note what a segment on its way to a guest acknowledges. */
static __always_inline void note_acknowledged(struct __sk_buff *skb)
{
	struct transport t = {.ip_offset = ETH_HLEN, .ethertype = skb->protocol};
	struct guest_key key = {};
	struct guest_flow *flow;
	struct tcphdr tcp;
	__u32 acked;

	if (!is_ip(skb) || find_transport(skb, &t) || t.protocol != IPPROTO_TCP || t.later_fragment ||
	    bpf_skb_load_bytes(skb, t.offset, &tcp, sizeof(tcp)) || !tcp.ack || guest_key_of(skb, &t, 0, &key))
		return;
	flow = bpf_map_lookup_elem(&guest_flows, &key);
	acked = bpf_ntohl(tcp.ack_seq);
	if (!flow || (__s32)(acked - flow->acked_seq) <= 0 || (__s32)(acked - (__u32)flow->tag.end) > 0)
		return;
	flow->acked_seq = acked;
	flow->tag.last_data_ns = bpf_ktime_get_ns();
}

#endif
