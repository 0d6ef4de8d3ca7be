// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * The port program: clsact egress of a switch port, before the HTB queues that OVS made.
 *
 *   1. Choose the queue. The OpenFlow rule has put queue q into an 802.1p priority tag (VLAN 0).
 *      Take the tag off and choose HTB class 1:(q+1), which OVS's linux-htb uses for OpenFlow
 *      queue q. Packets without a tag go to queue 0. Frames of a real VLAN keep their tag and go
 *      to the queue that the settings name, unless the kernel datapath has chosen one. Where no rule
 *      of Sluice forwards, the DSCP of the packet chooses, also behind a VLAN tag, and is counted.
 *      Where rules forward by VLAN, they put the queue into the priority of the VLAN's own tag, which
 *      leaves with priority 0.
 *   2. Pass the packet through the port's virtual queue (laws/mark.h). Drop it beyond the buffer,
 *      or the least urgent packets first (laws/drop_order.h, also for marks by queue).
 *      Set CE by K, by the ramp's probability, or by the phantom queue. A drop is silent (STOLEN,
 *      not SHOT), because OVS sends in batches. After an error it gives up the rest of the batch,
 *      so one packet beyond the buffer took up to 31 others with it.
 *   3. If flows have queues of their own (laws/dqs.h), choose the sub-queue and write its class
 *      into the packet's mark. The qdisc that dataplane/flow_queues.py has put below the HTB class
 *      reads the mark and serves its classes in turn. Two programs at tracepoints count the packets
 *      that leave or are dropped. The law catches up with these counts when the next packet comes.
 *   4. Count, per queue. Packets that an interface has joined (GRO) share one verdict, and each counts.
 *   5. Note how long the switch took to forward the packet. An emulated port also has a program at
 *      clsact ingress, sluice_arrival, which notes when each sampled packet arrived.
 *
 * One load of the program serves all ports of a switch, because the settings have the ifindex as their
 * key. They say where in the arrays the rest of a port is, because a look-up in a hash takes longer. A port
 * without settings only gets its classes. The CPUs that send to a port share its virtual queue, so a spin
 * lock guards it.
 *
 * Two steps are global functions. The kernel verifies each of them once, and not again after each way that leads to
 * it, so the program loads in a quarter of the time.
 */
#include "transport.bpf.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "port.h"
#include "../laws/tags.gen.h"

#define VLAN_PCP_SHIFT 13
#define VLAN_HLEN 4
#define TCP_FLAGS_OFFSET 13
#define TCP_FIN 1
#define HTB_MAJOR (1U << 16)

/* An empty port to which no packet came for this long has no packet on its way into a queue. */
#define SETTLED_NS 10000000

/*
 * Frames that are not IP have no tag. Networks need a few of them (ARP), so these go first: a 64th
 * of the link, and so many bytes at once. What is beyond that is background traffic.
 */
#define NOT_IP_PART 64
#define NOT_IP_BURST_BYTES 8000

/* Of the packets, one in so many is followed through the switch. */
#define SAMPLE_OF 16
#define GOLDEN_RATIO 2654435761U
#define FRAME_BITS (1514ULL * 8)
#define NS_PER_S 1000000000ULL

#define BULK_MAX 64 /* most packets that leave a qdisc at once */

extern int LINUX_KERNEL_VERSION __kconfig;
extern void *bpf_cast_to_kern_ctx(void *context) __ksym __weak;

struct port_state {
	struct sl_vq_state queue;
	__u64 late_ns; /* time in which the port had packets but did not send at its rate */
	struct sl_ahead ahead;
	struct sl_vq_state not_ip; /* the budget of frames that are not IP */
	struct bpf_spin_lock lock;
};

MAP_BY_NUMBER(settings, HASH, PORTS_MAX, struct port_settings);
MAP_BY_NUMBER(states, ARRAY, PORTS_MAX, struct port_state);
MAP_BY_NUMBER(counters, PERCPU_ARRAY, PORTS_MAX, struct port_counters);
MAP_BY_NUMBER(tags, PERCPU_ARRAY, PORTS_MAX, struct port_tags);

struct flow_queues {
	struct sl_dqs law;
	__u32 counted[PORT_SUB_QUEUES]; /* the part of departures.packets that the law has counted */
	__u64 last_ns;			/* when the last packet came */
	struct bpf_spin_lock lock;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PORTS_MAX *PORT_QUEUES);
	__type(key, struct port_queue);
	__type(value, struct flow_queues);
} flow_queues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PORTS_MAX);
	__type(key, __u32);
	__type(value, struct departures);
} departures SEC(".maps");

/* A packet on its way through the switch: the first 16 bytes of its transport header, and its IP id or source. */
struct passage {
	__be32 transport[4];
	__u32 id;
};

/* When each sampled packet arrived. One that the switch does not forward is forgotten by age. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct passage);
	__type(value, __u64);
} arrivals SEC(".maps");

MAP_BY_NUMBER(forwarding, PERCPU_ARRAY, 1, struct delays);

/* The outermost 802.1Q tag, in the metadata or in front of the payload; -1 if there is none. */
static __always_inline int outer_vlan_tci(struct __sk_buff *skb)
{
	__be16 tci;

	if (skb->vlan_present)
		return skb->vlan_tci & 0xFFFF;
	if (skb->protocol != bpf_htons(ETH_P_8021Q) || bpf_skb_load_bytes(skb, ETH_HLEN, &tci, sizeof(tci)))
		return -1;
	return bpf_ntohs(tci);
}

/*
 * Return the queue that the rule chose, and take the priority tag off. Without a tag, the kernel
 * datapath has obeyed the rule's set_queue: the packet's priority is the queue's class already.
 */
static __always_inline __u32 take_queue(struct __sk_buff *skb, const struct port_settings *set)
{
	int tci = outer_vlan_tci(skb);
	__u32 queue = skb->priority - (HTB_MAJOR | 1);

	if (tci >= 0 && tci & VLAN_VID_MASK && set && set->by_dscp == PORT_BY_HEADER) {
		if (!bpf_skb_vlan_pop(skb) && !bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), tci & VLAN_VID_MASK))
			queue = (__u32)tci >> VLAN_PCP_SHIFT;
	} else if (tci >= 0 && tci & VLAN_VID_MASK && set && queue >= PORT_QUEUES) {
		queue = set->vlan_queue;
	}
	if (tci >= 0 && !(tci & VLAN_VID_MASK) && !bpf_skb_vlan_pop(skb))
		queue = (__u32)tci >> VLAN_PCP_SHIFT;
	return sl_index(queue, PORT_QUEUES);
}

/* The places of the IP header and its protocol, also behind one VLAN tag that is in front of the payload. */
static __always_inline void find_ip(struct __sk_buff *skb, __u32 *offset, __be16 *ethertype)
{
	*offset = ETH_HLEN;
	*ethertype = skb->protocol;
	if (*ethertype != bpf_htons(ETH_P_8021Q))
		return;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + 2, ethertype, sizeof(*ethertype)))
		*ethertype = 0;
	*offset += VLAN_HLEN;
}

/* Does the packet, or the one inside a tunnel's, end a direction of a TCP connection? */
static __always_inline int is_fin(struct __sk_buff *skb, __u32 ip_offset, __be16 ethertype)
{
	struct transport t = {.ip_offset = ip_offset, .ethertype = ethertype};
	__u32 frame;
	__u8 flags;

	if (find_transport(skb, &t))
		return 0;
	frame = tunnelled_frame(skb, &t);
	if (frame && find_transport_in_frame(skb, frame, &t))
		return 0;
	return t.protocol == IPPROTO_TCP && !t.later_fragment &&
	       !bpf_skb_load_bytes(skb, t.offset + TCP_FLAGS_OFFSET, &flags, 1) && flags & TCP_FIN;
}

/* Count the packet by its DSCP, and return the queue of that DSCP. What is not IP goes first. */
static __always_inline __u32 queue_by_dscp(struct __sk_buff *skb, const struct port_settings *set, __u32 packets)
{
	__u32 place = set->place, offset, dscp;
	struct port_tags *all = bpf_map_lookup_elem(&tags, &place);
	__be16 ethertype;
	int tos;

	find_ip(skb, &offset, &ethertype);
	if (ethertype != bpf_htons(ETH_P_IP) && ethertype != bpf_htons(ETH_P_IPV6))
		return 0;
	tos = tos_at(skb, offset, ethertype);
	if (tos < 0)
		return 0;
	dscp = sl_index((__u32)tos >> DSCP_SHIFT, PORT_DSCPS);
	if (all) {
		all->of[dscp].packets += packets;
		all->of[dscp].bytes += skb->len;
		all->of[dscp].ends += is_fin(skb, offset, ethertype);
	}
	return sl_index(set->queue_of[dscp], PORT_QUEUES);
}

/*
 * Bytes that wait in the port's HTB queues. The verifier allows no arithmetic on the pointer in the context. Before
 * Linux 6.2 nothing else gives one, but read from the stack it is a plain number, with which each step costs a call.
 */
static __always_inline __u32 waiting_bytes(struct __sk_buff *skb)
{
	struct sk_buff *packet = NULL;
	struct Qdisc *root;

	if (LINUX_KERNEL_VERSION >= KERNEL_VERSION(6, 2, 0)) {
		packet = bpf_cast_to_kern_ctx(skb);
		root = packet->dev->qdisc;
		return root->handle == HTB_MAJOR ? root->qstats.backlog : 0;
	}
	bpf_probe_read_kernel(&packet, sizeof(packet), &skb);
	root = BPF_CORE_READ(packet, dev, qdisc);
	return BPF_CORE_READ(root, handle) == HTB_MAJOR ? BPF_CORE_READ(root, qstats.backlog) : 0;
}

/* Is this an IPv4 packet without ports: another protocol than TCP and UDP, or a later fragment? */
static __always_inline int lacks_ports(struct __sk_buff *skb)
{
	struct transport t = {.ip_offset = ETH_HLEN};

	if (skb->protocol != bpf_htons(ETH_P_IP) || ipv4_transport(skb, &t))
		return 0;
	return t.later_fragment || (t.protocol != IPPROTO_TCP && t.protocol != IPPROTO_UDP);
}

/*
 * The packet's rank in laws/drop_order.h. Background traffic shares the last queue with other flows,
 * and so do tagged packets whose tag the switch has not believed because they lack ports.
 */
static __always_inline __u32 rank_of(struct __sk_buff *skb, __u32 queue, __u32 untagged_queue)
{
	int tag = (is_ip(skb) ? ip_tos(skb) : 0) >> DSCP_SHIFT;

	if (tag == SL_TAG_BACKGROUND)
		return SL_RANK_BACKGROUND;
	return tag > 0 && queue == untagged_queue && lacks_ports(skb) ? SL_RANK_BACKGROUND : queue;
}

/* `queue` changes for a frame that is not IP and beyond the budget of such frames. */
__noinline enum sl_vq_verdict arrive(struct __sk_buff *skb, const struct port_settings *set, __u32 *queue,
				     __u32 len_bytes, __u32 waiting)
{
	__u32 place = set ? set->place : 0, random = 0, rank = 0, ranked;
	struct port_state *state = bpf_map_lookup_elem(&states, &place);
	struct sl_vq_settings law, budget = {.buffer_bytes = NOT_IP_BURST_BYTES};
	struct sl_by_rank by_rank;
	enum sl_vq_verdict verdict;
	__u64 now_ns, late, before;
	int not_ip;

	if (!set || !queue || !state)
		return SL_VQ_PASS;
	law = set->marking;
	by_rank = set->by_rank;
	ranked = sl_ranks_matter(&by_rank);
	budget.rate_bps = law.rate_bps / NOT_IP_PART;
	not_ip = by_rank.urgent_first && !is_ip(skb) && outer_vlan_tci(skb) < 0;
	if (law.mark_max_bytes > law.mark_bytes)
		random = bpf_get_prandom_u32();
	if (ranked)
		rank = rank_of(skb, *queue, set->vlan_queue);
	now_ns = bpf_ktime_get_ns();
	bpf_spin_lock(&state->lock);
	if (not_ip && sl_vq_arrive(&state->not_ip, &budget, len_bytes, now_ns, 0) == SL_VQ_DROP) {
		*queue = sl_index(set->vlan_queue, PORT_QUEUES);
		rank = SL_RANK_BACKGROUND;
	}
	before = state->queue.level;
	late = sl_vq_at_least(&state->queue, &law, waiting, now_ns);
	if (late)
		state->late_ns += late / law.rate_bps;
	if (ranked)
		verdict = sl_ranked_arrive(&state->queue, &state->ahead, &law, &by_rank, rank, len_bytes,
					   before > state->queue.level ? before - state->queue.level : 0, random);
	else
		verdict = sl_vq_arrive(&state->queue, &law, len_bytes, now_ns, random);
	bpf_spin_unlock(&state->lock);
	return verdict;
}

/* Set CE on an ECN-capable packet that has no CE, also behind one VLAN tag. Returns 1 if it was set. */
static __always_inline int mark(struct __sk_buff *skb)
{
	__u32 offset;
	__be16 ethertype;
	int tos = 0;

	find_ip(skb, &offset, &ethertype);
	if (ethertype == bpf_htons(ETH_P_IP) || ethertype == bpf_htons(ETH_P_IPV6))
		tos = tos_at(skb, offset, ethertype);
	if (tos < 0 || (tos & ECN_MASK) == ECN_NOT_ECT || (tos & ECN_MASK) == ECN_CE)
		return 0;
	return bpf_skb_ecn_set_ce(skb);
}

static __always_inline void count(__u32 place, __u32 queue, __u32 len_bytes, __u32 packets,
				  enum sl_vq_verdict verdict, int marked)
{
	struct port_counters *all = bpf_map_lookup_elem(&counters, &place);
	struct queue_counters *c;

	if (!all)
		return;
	c = &all->queues[sl_index(queue, PORT_QUEUES)]; /* Linux 6.1 forgets the bound that it had */
	if (verdict == SL_VQ_DROP) {
		c->dropped += packets;
		return;
	}
	c->packets += packets;
	c->bytes += len_bytes;
	if (verdict == SL_VQ_MARK && marked)
		c->marked += packets;
	else if (verdict == SL_VQ_MARK)
		c->not_markable += packets;
}

/*
 * Report to the law the packets that have left since its last call. In an empty port no packet
 * waits, even if the counts differ, because a replaced qdisc drops its packets unseen.
 */
static __always_inline void catch_up(struct flow_queues *f, const struct departures *left, __u32 queue, int empty)
{
	__u32 i, packets;

	for (i = 0; i < PORT_SUB_QUEUES; i++) {
		packets = *(volatile const __u32 *)&left->packets[queue][i];
		sl_dqs_left(&f->law, i, empty ? ~0U : packets - f->counted[i], left->last_ns[queue][i]);
		f->counted[i] = packets;
	}
}

/* The mark of a packet that is not dropped: the class of its flow's sub-queue. */
__noinline __u32 flow_class(struct __sk_buff *skb, const struct port_settings *set, __u32 queue, __u32 waiting)
{
	struct port_queue key = {.port = skb->ifindex, .queue = queue};
	struct flow_queues *f = bpf_map_lookup_elem(&flow_queues, &key);
	struct departures *left = bpf_map_lookup_elem(&departures, &key.port);
	__u32 flow = bpf_get_hash_recalc(skb), at;
	__u64 now_ns = bpf_ktime_get_ns();
	struct sl_dqs_settings law;

	if (!set || !f || !left)
		return 0;
	law = set->flow_queues;
	queue = sl_index(queue, PORT_QUEUES); /* as in `count` */
	if (law.queues > PORT_SUB_QUEUES)
		law.queues = PORT_SUB_QUEUES;
	bpf_spin_lock(&f->lock);
	catch_up(f, left, queue, !waiting && now_ns > f->last_ns && now_ns - f->last_ns > SETTLED_NS);
	f->last_ns = now_ns;
	at = sl_dqs_enqueue(&f->law, &law, flow, now_ns);
	bpf_spin_unlock(&f->lock);
	return at < PORT_SUB_QUEUES ? (PORT_FLOW_MAJOR + queue) << 16 | (at + 1) : 0;
}

/* Is the packet in the sample, one of SAMPLE_OF, at every port? If so, fill its key. Only IP packets are. */
static __always_inline int sampled(struct __sk_buff *skb, struct passage *key)
{
	int ipv4 = skb->protocol == bpf_htons(ETH_P_IP);
	__u32 offset = ipv4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
	__u32 id_offset = ipv4 ? offsetof(struct iphdr, id) & ~3U : offsetof(struct ipv6hdr, saddr) + 12;
	const __be32 *transport, *id = is_ip(skb) ? header_at(skb, ETH_HLEN + id_offset, sizeof(*id)) : NULL;

	if (!id)
		return 0;
	key->id = *id;
	transport = header_at(skb, ETH_HLEN + offset, sizeof(key->transport));
	if (!transport || (bpf_ntohl(transport[1]) + bpf_ntohl(transport[2]) + bpf_ntohl(key->id)) * GOLDEN_RATIO >=
				  ~0U / SAMPLE_OF)
		return 0;
	__builtin_memcpy(key->transport, transport, sizeof(key->transport));
	return 1;
}

/* Clsact ingress of an emulated port. */
SEC("tc")
int sluice_arrival(struct __sk_buff *skb)
{
	struct passage key = {};
	__u64 now_ns = bpf_ktime_get_ns();

	if (sampled(skb, &key))
		bpf_map_update_elem(&arrivals, &key, &now_ns, BPF_ANY);
	return TC_ACT_UNSPEC;
}

/* Count how long the switch took, in eighths of the time of a full frame at this port. */
static __always_inline void count_forwarding(struct __sk_buff *skb, __u64 rate_bps)
{
	struct passage key = {};
	__u32 zero = 0, i;
	struct delays *all;
	__u64 *arrived_ns, eighths;

	if (!rate_bps || !sampled(skb, &key))
		return;
	arrived_ns = bpf_map_lookup_elem(&arrivals, &key);
	all = bpf_map_lookup_elem(&forwarding, &zero);
	if (!arrived_ns || !all)
		return;
	eighths = (bpf_ktime_get_ns() - *arrived_ns) / (FRAME_BITS * NS_PER_S / DELAYS_IN_UNIT / rate_bps + 1);
	bpf_map_delete_elem(&arrivals, &key);
	for (i = 0; i < DELAYS - 1 && eighths >> i; i++)
		;
	all->counts[i]++;
}

SEC("tc")
int sluice_port(struct __sk_buff *skb)
{
	/*
	 * HTB counts the length before this hook, with the priority tag. The virtual queue must do
	 * the same, or the real queue outgrows it by 4 bytes a packet while the port is busy.
	 */
	__u32 port = skb->ifindex, htb_bytes = skb->wire_len, packets = skb->gso_segs ?: 1;
	struct port_settings *set = bpf_map_lookup_elem(&settings, &port);
	__u32 reads_dscp = set && set->by_dscp >= PORT_COUNTS_DSCP;
	__u32 queue = reads_dscp ? queue_by_dscp(skb, set, packets) : take_queue(skb, set);
	__u32 len_bytes = skb->len, waiting;
	enum sl_vq_verdict verdict;
	int marked = 0;

	if (!set) {
		skb->priority = HTB_MAJOR | (queue + 1);
		return TC_ACT_UNSPEC;
	}
	if (set->by_dscp == PORT_COUNTS_DSCP) {
		count(set->place, 0, len_bytes, packets, SL_VQ_PASS, 0);
		return TC_ACT_UNSPEC;
	}
	count_forwarding(skb, set->marking.rate_bps);
	waiting = waiting_bytes(skb);
	verdict = arrive(skb, set, &queue, htb_bytes, waiting);
	skb->priority = HTB_MAJOR | (queue + 1);
	if (verdict == SL_VQ_MARK)
		marked = mark(skb);
	if (set->flow_queues.queues && verdict != SL_VQ_DROP)
		skb->mark = flow_class(skb, set, queue, waiting);
	count(set->place, queue, len_bytes, packets, verdict, marked);
	return verdict == SL_VQ_DROP ? TC_ACT_STOLEN : TC_ACT_UNSPEC;
}

/* NULL: the device is none of these ports. */
static __always_inline struct departures *departures_of(const struct net_device *dev)
{
	__u32 port = dev->ifindex;
	struct departures *left = bpf_map_lookup_elem(&departures, &port);

	return left && dev->nd_net.net->ns.inum == left->netns ? left : NULL;
}

static __always_inline void depart(struct departures *left, const struct sk_buff *skb, __u64 now_ns)
{
	__u32 class = skb->mark, queue = (class >> 16) - PORT_FLOW_MAJOR, at = (class & 0xFFFF) - 1;

	if (queue >= PORT_QUEUES || at >= PORT_SUB_QUEUES)
		return;
	left->last_ns[queue][at] = now_ns;
	__sync_fetch_and_add(&left->packets[queue][at], 1);
}

/*
 * Has this packet left before? A busy driver gives packets back, some without their mark. The
 * qdisc then hands them out again, one at a time and before all others.
 */
static __always_inline int leaves_again(struct departures *left, struct Qdisc *qdisc)
{
	__u32 requeues = qdisc->qstats.requeues;

	if (left->qdisc != (__u64)qdisc)
		left->again = 0;
	else
		left->again += requeues - left->requeues;
	left->qdisc = (__u64)qdisc;
	left->requeues = requeues;
	if (!left->again)
		return 0;
	left->again--;
	return 1;
}

/*
 * Packets leave a root qdisc of any interface of the machine. One CPU at a time serves a qdisc.
 */
SEC("tp_btf/qdisc_dequeue")
int BPF_PROG(sluice_departure, struct Qdisc *qdisc, const struct netdev_queue *txq, int packets, struct sk_buff *skb)
{
	struct departures *left;
	__u64 now_ns;
	int i;

	if (!skb)
		return 0;
	left = departures_of(txq->dev);
	if (!left || leaves_again(left, qdisc))
		return 0;
	now_ns = bpf_ktime_get_ns();
	for (i = 0; i < BULK_MAX && i < packets && skb; i++) {
		depart(left, skb, now_ns);
		skb = skb->next;
	}
	return 0;
}

/* The part of a name after ___ is not the kernel's. Older kernels lack the last two. */
enum skb_drop_reason___ours {
	SKB_DROP_REASON_TC_EGRESS___ours,
	SKB_DROP_REASON_QDISC_DROP___ours,
	SKB_DROP_REASON_QDISC_OVERLIMIT___ours,
	SKB_DROP_REASON_QDISC_CONGESTED___ours,
};

#define IS_REASON(reason, name)                                                                                      \
	(bpf_core_enum_value_exists(enum skb_drop_reason___ours, SKB_DROP_REASON_##name##___ours) &&                 \
	 (reason) == bpf_core_enum_value(enum skb_drop_reason___ours, SKB_DROP_REASON_##name##___ours))

/* Was the packet dropped after the port program, and before it left the queues? */
static __always_inline int dropped_by_queue(__u32 reason)
{
	return IS_REASON(reason, QDISC_DROP) || IS_REASON(reason, QDISC_OVERLIMIT) ||
	       IS_REASON(reason, QDISC_CONGESTED) || IS_REASON(reason, TC_EGRESS);
}

/* The kernel drops a packet, for any reason. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(sluice_drop, struct sk_buff *skb, void *location, enum skb_drop_reason reason)
{
	struct departures *left;

	if (!skb->mark || !dropped_by_queue(reason))
		return 0;
	left = departures_of(skb->dev);
	if (left)
		depart(left, skb, bpf_ktime_get_ns());
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
