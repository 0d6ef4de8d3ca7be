// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * The tagger: clsact egress of a host's interface. For every TCP and UDP packet over IPv4 or IPv6,
 * it writes into the DSCP how much the flow has sent (laws/tag.h). If a program has declared its
 * flow (include/sluice.h), the tag is the flow's urgency or size class instead, where the settings
 * say so. Nothing else of the packet changes except the IPv4 checksum. If the host's own link has
 * the scheme's queues, the program also chooses the packet's queue there, by its DSCP.
 *
 * The state of a connection is in its socket (socket storage) and goes away with the socket. TCP
 * needs no lock, because it makes and sends a socket's segments under the socket's lock. Datagrams
 * may leave from several CPUs at once, so they take a lock.
 *
 *   packet                                           tag
 *   TCP of an established (or closing) connection    by sequence numbers, or by the declared flow
 *   of a flow that its congestion control quenched   background
 *   SYN without data, SYN-ACK, RST without a connection,
 *   last ACKs of a connection in TIME-WAIT           1, without state
 *   FIN of a direction that has carried no data      none: no flow ends with it
 *   UDP                                              by the sum of the payloads that the socket sent
 *   forwarded (no local socket), other protocols,
 *   TCP that is not a first fragment                 unchanged
 *
 * With segmentation offload, the hook sees one large packet. All its segments get the tag of its
 * first byte.
 */
#include "packet.bpf.h"
#include "flow.bpf.h"
#include "tag.h"
#include "../laws/tag.h"
#include "../laws/ucp.h"

#define IPV6_EXTENSIONS_MAX 4
#define SRTT_SHIFT 3 /* the kernel keeps eight times the smoothed round-trip time */

struct flow {
	struct sl_tag_state tag;
	struct bpf_spin_lock lock;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tag_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TAG_DSCPS);
	__type(key, __u32);
	__type(value, struct tag_counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TAG_DSCPS);
	__type(key, __u32);
	__type(value, struct tag_foreign);
} foreign SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TAG_DSCPS);
	__type(key, __u32);
	__type(value, struct tag_written);
} written SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TAG_DSCPS);
	__type(key, __u32);
	__type(value, __u32);
} priorities SEC(".maps");

/* The place of the transport header. */
struct transport {
	__u32 offset;
	__u8 protocol;
	__u8 later_fragment; /* there is no transport header here, only payload */
};

static __always_inline int ipv4_transport(struct __sk_buff *skb, struct transport *t)
{
	struct iphdr ip;
	int err = bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip));

	if (err)
		return err;
	t->offset = ETH_HLEN + ip.ihl * 4;
	t->protocol = ip.protocol;
	t->later_fragment = (bpf_ntohs(ip.frag_off) & IPV4_FRAGMENT_OFFSET) != 0;
	return 0;
}

/* Skip an extension header. 1 if there was one and `t` is after it; 0 if `t` is at the transport. */
static __always_inline int ipv6_skip_extension(struct __sk_buff *skb, struct transport *t)
{
	/* Other headers begin alike: next header, then the length in 8 octets after the first 8. */
	struct frag_hdr fragment;
	int err;

	if (t->protocol != IPPROTO_HOPOPTS && t->protocol != IPPROTO_ROUTING && t->protocol != IPPROTO_DSTOPTS &&
	    t->protocol != IPPROTO_FRAGMENT)
		return 0;
	err = bpf_skb_load_bytes(skb, t->offset, &fragment, sizeof(fragment));
	if (err)
		return err;
	if (t->protocol == IPPROTO_FRAGMENT) {
		t->later_fragment = (bpf_ntohs(fragment.frag_off) & ~7) != 0;
		t->offset += sizeof(fragment);
	} else {
		t->offset += (fragment.reserved + 1) * 8;
	}
	t->protocol = fragment.nexthdr;
	return 1;
}

static __always_inline int ipv6_transport(struct __sk_buff *skb, struct transport *t)
{
	__u8 next_header;
	int i, err = bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, nexthdr), &next_header, 1);

	if (err)
		return err;
	t->offset = ETH_HLEN + sizeof(struct ipv6hdr);
	t->protocol = next_header;
	t->later_fragment = 0;
	for (i = 0; i < IPV6_EXTENSIONS_MAX && !t->later_fragment; i++) {
		err = ipv6_skip_extension(skb, t);
		if (err <= 0)
			return err;
	}
	return 0;
}

static __always_inline struct tag_settings current_settings(void)
{
	__u32 key = 0;
	struct tag_settings *set = bpf_map_lookup_elem(&settings, &key), none = {};

	if (set)
		none = *set;
	if (!none.idle_gap_ns)
		none.idle_gap_ns = SL_DEFAULT_IDLE_GAP_NS;
	return none;
}

static __always_inline struct flow *flow_of(struct bpf_sock *sk)
{
	return bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
}

/*
 * Is this the socket of one connection? A listener answers for many connections. Replies that
 * belong to no connection leave through a socket of the kernel, which is not a stream socket.
 */
static __always_inline int is_connection(const struct bpf_sock *sk)
{
	return sk && sk->type == SOCK_STREAM && sk->state != BPF_TCP_LISTEN && sk->state != BPF_TCP_NEW_SYN_RECV &&
	       sk->state != BPF_TCP_TIME_WAIT;
}

/*
 * Does the segment belong to the declared flow? A segment from before the flow, with data from
 * after its last byte, or of a later flow after an idle gap does not. `offset` counts the
 * connection's bytes, as first_byte does.
 */
static __always_inline int in_declared_flow(const struct declared_flow *declared, __u64 offset, __u64 attained,
					    int has_data)
{
	__u64 before = offset - declared->first_byte; /* bytes of the flow before the segment */

	if (offset < declared->first_byte || offset - attained > declared->first_byte)
		return 0;
	if (!(declared->fields & SLUICE_HAS_SIZE))
		return 1;
	return has_data ? before < declared->size_bytes : before <= declared->size_bytes;
}

/* Does the flow's deadline decide about its tag? */
static __always_inline int is_timed(const struct declared_flow *declared, __u64 now_ns,
				    const struct tag_settings *set)
{
	return (set->carries & TAG_DEADLINES) && (declared->fields & SLUICE_HAS_DEADLINE) &&
	       !((set->carries & TAG_FORGETS_LATE) && now_ns >= declared->deadline_ns);
}

/* Tag of a segment of a flow that has sent `attained` bytes before it. */
static __always_inline int segment_tag(struct bpf_sock *sk, const struct bpf_tcp_sock *tp, __u32 seq, int has_data,
				       __u64 attained, __u64 now_ns, const struct tag_settings *set)
{
	struct socket_flow *flow = bpf_sk_storage_get(&sluice_flow_1, sk, 0, 0);
	__u64 offset = tp->bytes_acked + (__u64)(__s64)(__s32)(seq - tp->snd_una);

	if (!flow || !in_declared_flow(&flow->declared, offset, attained, has_data))
		return sl_attained_tag(attained);
	if (flow->state.phase != SLUICE_SENDING)
		return SL_TAG_BACKGROUND;
	if (is_timed(&flow->declared, now_ns, set))
		return sl_deadline_tag(
			attained, set->urgent_after_bytes,
			sl_ucp_urgency_q16(flow->declared.start_ns, flow->declared.deadline_ns, now_ns));
	if ((set->carries & TAG_SIZES) && (flow->declared.fields & SLUICE_HAS_SIZE))
		return sl_known_size_tag(flow->declared.size_bytes);
	return sl_attained_tag(attained);
}

/* Tag of a TCP segment, SL_TAG_UNTAGGED, or a negative error. */
static __always_inline int tcp_tag(struct __sk_buff *skb, const struct transport *t, struct bpf_sock *sk)
{
	struct tag_settings set = current_settings();
	struct tcphdr tcp;
	struct bpf_tcp_sock *tp;
	struct flow *flow;
	__u64 attained, now_ns;
	__u32 headers, data_bytes, seq;
	int err = bpf_skb_load_bytes(skb, t->offset, &tcp, sizeof(tcp));

	if (err)
		return err;
	headers = t->offset + tcp.doff * 4;
	data_bytes = skb->len > headers ? skb->len - headers : 0;
	if ((tcp.syn && !data_bytes) || !is_connection(sk))
		return SL_TAG_ATTAINED_FIRST;
	flow = flow_of(sk);
	if (!flow)
		return -ENOMEM;
	tp = bpf_tcp_sock(sk);
	if (!tp)
		return -EPROTONOSUPPORT;
	seq = bpf_ntohl(tcp.seq) + tcp.syn;
	now_ns = bpf_ktime_get_ns();
	attained = sl_tag_segment(&flow->tag, seq, data_bytes, tp->snd_una, now_ns,
				  sl_tag_gap_ns(set.idle_gap_ns, tp->srtt_us >> SRTT_SHIFT));
	if (tcp.fin && !sl_tag_carried_data(&flow->tag))
		return SL_TAG_UNTAGGED;
	return segment_tag(sk, tp, seq, data_bytes > 0, attained, now_ns, &set);
}

/* Tag of a datagram or a fragment of one, or a negative error. */
static __always_inline int udp_tag(struct __sk_buff *skb, const struct transport *t, struct bpf_sock *sk)
{
	__u32 headers = t->offset + (t->later_fragment ? 0 : sizeof(struct udphdr));
	__u64 attained, now_ns, gap_ns = current_settings().idle_gap_ns;
	struct flow *flow;

	if (!sk)
		return SL_TAG_ATTAINED_FIRST;
	flow = flow_of(sk);
	if (!flow)
		return -ENOMEM;
	now_ns = bpf_ktime_get_ns();
	bpf_spin_lock(&flow->lock);
	attained = sl_tag_datagram(&flow->tag, skb->len > headers ? skb->len - headers : 0, now_ns, gap_ns);
	bpf_spin_unlock(&flow->lock);
	return sl_attained_tag(attained);
}

/* Tag of the packet; zero or a negative number if the packet must stay unchanged. */
static __always_inline int packet_tag(struct __sk_buff *skb, struct bpf_sock *full)
{
	/* Linux 6.1's verifier does not see that no one reads `t` after an error. */
	struct transport t = {};
	int err = skb->protocol == bpf_htons(ETH_P_IP) ? ipv4_transport(skb, &t) : ipv6_transport(skb, &t);

	if (err)
		return err;
	if (t.protocol == IPPROTO_TCP && !t.later_fragment)
		return tcp_tag(skb, &t, full);
	if (t.protocol == IPPROTO_UDP)
		return udp_tag(skb, &t, full);
	return -EPROTONOSUPPORT;
}

static __always_inline __u32 dscp_of(struct __sk_buff *skb)
{
	int tos = ip_tos(skb);

	return tos < 0 ? 0 : (__u32)tos >> DSCP_SHIFT;
}

/* Write the tag, or the one that stands for it if it is reserved. No tag: the packet stays unchanged. */
static __always_inline void write_tag(struct __sk_buff *skb, int tag)
{
	struct tag_written *w;
	__u32 key = tag;

	if (tag <= 0)
		return;
	w = bpf_map_lookup_elem(&written, &key);
	if (w)
		ip_set_dscp(skb, w->as);
}

static __always_inline void count(struct __sk_buff *skb)
{
	__u32 dscp = dscp_of(skb);
	struct tag_counters *c = bpf_map_lookup_elem(&counters, &dscp);

	if (c) {
		c->packets++;
		c->bytes += skb->len;
	}
}

/*
 * Note a DSCP that another program, netfilter or a container set. TCP keeps no IP header with the
 * segments that it retransmits, so a tag of this program never comes here again.
 */
static __always_inline void note_foreign(__u32 dscp, int is_local, struct bpf_sock *full)
{
	struct tag_foreign *f = bpf_map_lookup_elem(&foreign, &dscp);

	if (!f)
		return;
	f->seen += is_local;
	f->forwarded += !is_local;
	if (!full)
		return;
	f->protocol = full->protocol;
	f->src_port = full->src_port;
	f->dst_port = bpf_ntohs(full->dst_port);
}

/* Tag a packet of a local socket, and count it. Note a DSCP that it had before. */
static __always_inline void tag(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk, *full = sk ? bpf_sk_fullsock(sk) : NULL;
	struct tag_written *w;
	int is_reserved = 0;
	__u32 dscp = dscp_of(skb);

	if (dscp) {
		note_foreign(dscp, sk != NULL, full);
		w = bpf_map_lookup_elem(&written, &dscp);
		is_reserved = w && w->reserved;
	}
	if (!sk)
		return;
	if (!is_reserved)
		write_tag(skb, packet_tag(skb, full));
	count(skb);
}

/* The queue of the host's own link (dataplane/link_queues.py). It follows the DSCP, as at a switch. */
static __always_inline void choose_queue(struct __sk_buff *skb)
{
	__u32 dscp = dscp_of(skb), *priority = bpf_map_lookup_elem(&priorities, &dscp);

	if (priority && *priority)
		skb->priority = *priority;
}

SEC("tc")
int sluice_tag(struct __sk_buff *skb)
{
	if (is_ip(skb)) {
		tag(skb);
		choose_queue(skb);
	}
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
