// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * The tagger: clsact egress of a host's interface. For every TCP and UDP packet over IPv4 or IPv6,
 * it writes into the DSCP how much the flow has sent (laws/tag.h). If a program has declared its
 * flow (include/sluice.h), the tag is the flow's urgency or size class instead, where the settings
 * say so. Nothing else of the packet changes except the IPv4 checksum. In a scheme
 * with levels, the tag is the level that the program has chosen (SO_PRIORITY). If the host's own link has
 * the scheme's queues, the program also chooses the packet's queue there, by its DSCP.
 *
 * The state of a connection is in its socket (socket storage) and goes away with the socket. TCP
 * needs no lock, because it makes and sends a socket's segments under the socket's lock. Below a
 * bridge, two CPUs may have segments of one socket at once. The highest byte may then be noted a
 * segment late, which changes no segment's place in its flow. Datagrams may leave from several CPUs
 * at once, so they take a lock.
 *
 *   packet                                           tag
 *   TCP of an established (or closing) connection    by sequence numbers, or by the declared flow
 *   of a socket that carries its tag itself          unchanged (socket_tag.bpf.h)
 *   of a flow that its congestion control quenched   background
 *   SYN without data, SYN-ACK, RST without a connection,
 *   last ACKs of a connection in TIME-WAIT           1, without state
 *   of VXLAN or Geneve                               the DSCP inside if there is one, else as the packet inside
 *   FIN of a direction that has carried no data      none: no flow ends with it
 *   UDP                                              by the sum of the payloads that the socket sent there
 *   tagged at its guest's interface                  unchanged (guest.bpf.h), but in a tunnel as above
 *   forwarded (no local socket, or that of a virtual machine's tap or of a packet socket),
 *   other protocols, TCP that is not a first fragment    unchanged
 *
 * With segmentation offload, the hook sees one large packet. All its segments get the tag of its
 * first byte.
 */
#include <bpf/bpf_core_read.h>
#include "tag_of_flow.bpf.h"
#include "guest.bpf.h"

#define DESTINATIONS_MAX 16384

/* Families of sockets: macros of the kernel, which BTF lacks. */
#define AF_INET 2
#define AF_INET6 10
#define TC_PRIO_MAX 15
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

struct tag_policy policy;

MAP_BY_NUMBER(counters, PERCPU_ARRAY, TAG_DSCPS + 1, struct tag_counters);
MAP_BY_NUMBER(guest_seen, PERCPU_ARRAY, GUEST_COUNTS, __u64);
MAP_BY_NUMBER(foreign, PERCPU_ARRAY, TAG_DSCPS, struct tag_foreign);

/* Where an unconnected socket sends. Fragments of a datagram after the first have port 0. */
struct destination {
	__u64 socket; /* its cookie */
	__be32 address[4];
	__be32 port;
	__u32 padding;
};

/* Two CPUs that send to one destination at once may count fewer bytes than both sent. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, DESTINATIONS_MAX);
	__type(key, struct destination);
	__type(value, struct sl_tag_state);
} destinations SEC(".maps");

static __always_inline struct flow *flow_of(struct bpf_sock *sk)
{
	return bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
}

static __always_inline int is_reserved(__u32 dscp)
{
	return policy.of[sl_index(dscp, TAG_DSCPS)].written.reserved;
}

/*
 * The socket of a packet that a program of this host has sent over IP. Frames of a virtual machine have a socket, too,
 * that of its tap, and so have those of a packet socket: such a frame is forwarded.
 */
static __always_inline struct bpf_sock *ip_socket(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	return sk && (sk->family == AF_INET || sk->family == AF_INET6) ? sk : NULL;
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

/* When TCP lets the packet go, by CLOCK_MONOTONIC. TCP has noted it since Linux 5.18, and to ask takes longer. */
static __always_inline __u64 sent_ns(struct __sk_buff *skb)
{
	if (bpf_core_field_exists(skb->tstamp_type) && skb->tstamp_type == BPF_SKB_TSTAMP_DELIVERY_MONO)
		return skb->tstamp;
	return bpf_ktime_get_ns();
}

/* Tag of a TCP segment, SL_TAG_UNTAGGED if it must stay unchanged, or a negative error. */
static __always_inline int tcp_tag(struct __sk_buff *skb, const struct transport *t, struct bpf_sock *sk)
{
	int is_of_connection = is_connection(sk);
	const struct socket_flow *known = NULL;
	const struct tag_settings *set = &policy.settings;
	const struct tcphdr *tcp;
	struct bpf_tcp_sock *tp;
	struct flow *flow;
	__u64 attained, now_ns;
	__u32 headers, data_bytes, seq;

	if (is_of_connection)
		known = bpf_sk_storage_get(&sluice_flow_2, sk, 0, 0);
	if (known && known->tag.last_data_ns)
		return SL_TAG_UNTAGGED;
	tcp = header_at(skb, t->offset, sizeof(*tcp));
	if (!tcp)
		return -EFAULT;
	headers = t->offset + tcp->doff * 4;
	data_bytes = skb->len > headers ? skb->len - headers : 0;
	if ((tcp->syn && !data_bytes) || !is_of_connection)
		return SL_TAG_ATTAINED_FIRST;
	flow = flow_of(sk);
	if (!flow)
		return -ENOMEM;
	if (sk->protocol != IPPROTO_TCP)
		return -EPROTONOSUPPORT;
	seq = bpf_ntohl(tcp->seq) + tcp->syn;
	now_ns = sent_ns(skb);
	/* What only an idle or declared flow needs costs a call. */
	tp = known || sl_tag_idle(&flow->tag, now_ns, set->idle_gap_ns) ? bpf_tcp_sock(sk) : NULL;
	attained = sl_tag_segment(&flow->tag, seq, data_bytes, tp ? tp->snd_una : 0, now_ns,
				  sl_tag_gap_ns(set->idle_gap_ns, tp ? tp->srtt_us >> SRTT_SHIFT : 0));
	if (tcp->fin && !sl_tag_carried_data(&flow->tag))
		return SL_TAG_UNTAGGED;
	if (!known || !tp)
		return sl_attained_tag(sl_tag_shown(attained, data_bytes));
	return tag_of_flow(known, tp->bytes_acked + (__u64)(__s64)(__s32)(seq - tp->snd_una), data_bytes, attained,
			   now_ns, set);
}

/* Fill the destination of a packet of a socket. */
static __always_inline int find_destination(struct __sk_buff *skb, const struct transport *t, struct destination *to)
{
	int err = load_address(skb, t, 0, to->address);
	__be16 port = 0;

	if (!err && !t->later_fragment)
		err = bpf_skb_load_bytes(skb, t->offset + offsetof(struct udphdr, dest), &port, sizeof(port));
	to->port = port;
	to->socket = bpf_get_socket_cookie(skb);
	return err;
}

/* Tag of a datagram of a socket that may send to many, each of which gets a flow of its own. */
static __always_inline int unconnected_tag(struct __sk_buff *skb, const struct transport *t, __u32 data_bytes,
					   __u64 now_ns, __u64 gap_ns)
{
	struct sl_tag_state *flow, none = {};
	struct destination to = {};
	int err = find_destination(skb, t, &to);

	if (err)
		return err;
	flow = bpf_map_lookup_elem(&destinations, &to);
	if (!flow) {
		bpf_map_update_elem(&destinations, &to, &none, BPF_NOEXIST);
		flow = bpf_map_lookup_elem(&destinations, &to);
		if (!flow)
			return -ENOMEM;
	}
	return sl_attained_tag(sl_tag_shown(sl_tag_datagram(flow, data_bytes, now_ns, gap_ns), data_bytes));
}

/* Tag of a datagram or a fragment of one, or a negative error. A tunnel's datagram has a socket of the inside. */
static __always_inline int udp_tag(struct __sk_buff *skb, const struct transport *t, struct bpf_sock *sk)
{
	__u32 headers = t->offset + (t->later_fragment ? 0 : sizeof(struct udphdr));
	__u32 data_bytes = skb->len > headers ? skb->len - headers : 0;
	__u64 attained, now_ns, gap_ns = policy.settings.idle_gap_ns;
	struct flow *flow;

	if (!sk)
		return SL_TAG_ATTAINED_FIRST;
	if (sk->protocol != IPPROTO_UDP && sk->protocol != IPPROTO_UDPLITE)
		return -EPROTONOSUPPORT;
	now_ns = bpf_ktime_get_ns();
	if (!sk->dst_port)
		return unconnected_tag(skb, t, data_bytes, now_ns, gap_ns);
	flow = flow_of(sk);
	if (!flow)
		return -ENOMEM;
	bpf_spin_lock(&flow->lock);
	attained = sl_tag_datagram(&flow->tag, data_bytes, now_ns, gap_ns);
	bpf_spin_unlock(&flow->lock);
	return sl_attained_tag(sl_tag_shown(attained, data_bytes));
}

/* Go on to the packet inside a tunnel's. Returns its DSCP, or a negative error. */
static __always_inline int enter_tunnel(struct __sk_buff *skb, __u32 frame, struct transport *t)
{
	int tos, err = find_transport_in_frame(skb, frame, t);

	if (err)
		return err;
	tos = tos_at(skb, t->ip_offset, t->ethertype);
	return tos < 0 ? tos : tos >> DSCP_SHIFT;
}

/*
 * Tag of the packet; zero or a negative number if the packet must stay unchanged. That of a guest is tagged, but not the
 * tunnel's packet around it.
 */
static __always_inline int packet_tag(struct __sk_buff *skb, struct bpf_sock *full, int is_guest)
{
	struct transport t = {.ip_offset = ETH_HLEN, .ethertype = skb->protocol};
	int inner, err = find_transport(skb, &t);
	__u32 frame;

	if (err)
		return err;
	frame = tunnelled_frame(skb, &t);
	if (frame) {
		inner = enter_tunnel(skb, frame, &t);
		if (inner)
			return inner < 0 || is_reserved(inner) ? -EPROTONOSUPPORT : inner;
	}
	if (is_guest)
		return SL_TAG_UNTAGGED;
	if (t.protocol == IPPROTO_TCP && !t.later_fragment)
		return tcp_tag(skb, &t, full);
	if (t.protocol == IPPROTO_UDP)
		return udp_tag(skb, &t, full);
	return -EPROTONOSUPPORT;
}

static __always_inline void count(struct __sk_buff *skb, __u32 place)
{
	struct tag_counters *c = bpf_map_lookup_elem(&counters, &place);

	if (c) {
		c->packets++;
		c->bytes += skb->len;
	}
}

/*
 * Does the kernel itself answer with this packet? It has a socket of its own, or that of a listener,
 * a request or a connection in TIME-WAIT. The answer repeats the DSCP of what it answers, so no
 * program of this host uses it.
 */
static __always_inline int is_reflected(const struct bpf_sock *full)
{
	__u32 protocol;

	if (!full)
		return 1;
	protocol = full->protocol;
	if (full->type == SOCK_RAW)
		return protocol == IPPROTO_TCP || protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6;
	return protocol == IPPROTO_TCP && full->state == BPF_TCP_LISTEN;
}

/*
 * Note a DSCP that another program, netfilter or a container set. TCP keeps no IP header with the
 * segments that it retransmits, so a tag of this program never comes here again.
 */
static __always_inline void note_foreign(__u32 dscp, int is_local, struct bpf_sock *full)
{
	struct tag_foreign *f = bpf_map_lookup_elem(&foreign, &dscp);

	if (!f || (is_local && is_reflected(full)))
		return;
	f->seen += is_local;
	f->forwarded += !is_local;
	if (!full)
		return;
	f->protocol = full->protocol;
	f->src_port = full->src_port;
	f->dst_port = bpf_ntohs(full->dst_port);
}

/* Does the kernel answer a SYN here with a cookie? The answer has no socket, so that no CPU waits for another's. */
static __always_inline int is_cookie(struct __sk_buff *skb)
{
	struct transport t = {.ip_offset = ETH_HLEN, .ethertype = skb->protocol};
	struct tcphdr tcp;

	return !skb->ingress_ifindex && !find_transport(skb, &t) && t.protocol == IPPROTO_TCP && !t.later_fragment &&
	       !bpf_skb_load_bytes(skb, t.offset, &tcp, sizeof(tcp)) && tcp.syn && tcp.ack;
}

/* The DSCP for this tag, or for the one that stands for it if it is reserved; TAG_NONE if the policy does not act. */
static __always_inline __u32 tag_written(__u32 tag)
{
	return policy.of[sl_index(tag, TAG_DSCPS)].written.as;
}

/*
 * The level that the packet's program has chosen. A priority that names a queue is that of an interface before this one,
 * where the packet has got its DSCP.
 */
static __always_inline __u32 level_of(const struct __sk_buff *skb)
{
	if (skb->priority > TC_PRIO_MAX)
		return TAG_NONE;
	return skb->priority && skb->priority < TAG_LAST_LEVEL ? skb->priority : TAG_LAST_LEVEL;
}

/* If there is a tag and the policy acts on this host, write it. Return the DSCP with which the packet leaves. */
static __always_inline __u32 write_tag(struct __sk_buff *skb, __u8 tos, int tag)
{
	__u32 as = tag > 0 ? tag_written(tag) : TAG_NONE;

	if (as == TAG_LEVEL)
		as = level_of(skb);
	return as != TAG_NONE && !ip_set_dscp(skb, tos, as) ? as : tos >> DSCP_SHIFT;
}

/*
 * Tag a packet of a local socket, and count it. Note a DSCP that it had before and that is not its tag: at a second
 * interface it has its tag already. Return the DSCP with which the packet leaves.
 */
static __always_inline __u32 tag(struct __sk_buff *skb, __u8 tos)
{
	struct bpf_sock *sk = ip_socket(skb), *full = sk ? bpf_sk_fullsock(sk) : NULL;
	__u32 before = tos >> DSCP_SHIFT, dscp = before;
	int keeps = before && is_reserved(before), is_guest = skb->tc_index == OF_GUEST;
	int has_tag = is_guest || sk, is_local = has_tag || is_cookie(skb);

	if (is_local && !keeps)
		dscp = write_tag(skb, tos, has_tag ? packet_tag(skb, full, is_guest) : SL_TAG_ATTAINED_FIRST);
	if (before && !is_guest && (keeps || !is_local || before != dscp))
		note_foreign(before, is_local, full);
	count(skb, is_local ? dscp : TAG_DSCPS);
	return dscp;
}

/* The queue of the host's own link (dataplane/link_queues.py). It follows the DSCP, as at a switch. */
static __always_inline void choose_queue(struct __sk_buff *skb, __u32 dscp)
{
	__u32 priority = policy.of[sl_index(dscp, TAG_DSCPS)].priority;

	if (priority)
		skb->priority = priority;
}

SEC("tc")
int sluice_tag(struct __sk_buff *skb)
{
	int tos = is_ip(skb) ? ip_tos(skb) : -1;

	if (tos >= 0)
		choose_queue(skb, tag(skb, tos));
	else
		count(skb, TAG_DSCPS);
	return TC_ACT_UNSPEC;
}

/* Note a DSCP that a guest has written. */
static __always_inline void note_guest(__u32 dscp, const struct guest_key *key)
{
	struct tag_foreign *f = dscp ? bpf_map_lookup_elem(&foreign, &dscp) : NULL;

	if (!f)
		return;
	f->seen++;
	f->protocol = key->protocol;
	f->src_port = bpf_ntohs(key->guest_port);
	f->dst_port = bpf_ntohs(key->other_port);
}

/* At the ingress of a guest's interface. */
SEC("tc")
int sluice_guest(struct __sk_buff *skb)
{
	int tos = is_ip(skb) ? ip_tos(skb) : -1, tag;
	struct guest_key key = {};
	__u32 before, dscp = 0, place = skb->ifindex % GUEST_COUNTS;
	__u64 *packets = bpf_map_lookup_elem(&guest_seen, &place);

	if (packets)
		(*packets)++;
	if (tos < 0)
		return TC_ACT_UNSPEC;
	skb->tc_index = OF_GUEST;
	before = tos >> DSCP_SHIFT;
	tag = guest_tag(skb, &key, policy.settings.idle_gap_ns);
	if (before && is_reserved(before)) {
		note_guest(before, &key);
		return TC_ACT_UNSPEC;
	}
	if (tag > 0)
		dscp = tag_written(tag);
	if (dscp >= TAG_DSCPS) /* no program of this host has chosen a level for a guest */
		return TC_ACT_UNSPEC;
	note_guest(before, &key);
	ip_set_dscp(skb, tos, dscp);
	return TC_ACT_UNSPEC;
}

/* At the egress of a guest's interface. */
SEC("tc")
int sluice_acks(struct __sk_buff *skb)
{
	note_acknowledged(skb);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
