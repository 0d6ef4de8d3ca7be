/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The state of the flow watch: what it keeps in a socket, and how it fills a struct watch_connection. */
#ifndef SLUICE_WATCH_STATE_BPF_H
#define SLUICE_WATCH_STATE_BPF_H

#include "flow.bpf.h"
#include "host.bpf.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>
#include "watch.h"
#include "../laws/tag.h"

#define AF_INET 2
#define AF_INET6 10
#define NSEC_PER_USEC 1000
#define SRTT_SHIFT 3 /* the kernel keeps eight times the smoothed round-trip time */
#define RING_BYTES (1 << 20)

#define MAX_UNACKED 8
#define MAX_ADDRESSES 16384
#define MAX_CGROUPS 1024

/* Kept in a watched socket. Counters: their values before the first byte of the flow. */
struct watched {
	__u64 start_ns; /* 0: the connection has ended; the program may connect the socket again */
	__u64 first_sent_ns;
	__u64 last_sent_ns;
	__u64 sent_at_ns;
	__u64 received_at_ns;
	__u64 acked_before; /* at the end that opens the connection, its acknowledged SYN is a byte */
	__u64 received_before;
	__u64 received_at_write; /* bytes_received at the last write */
	__u64 declared_ns;	 /* start of the newest declaration that a write has followed */
	__u64 told_start_ns;
	__u64 told_deadline_ns;
	__u32 retransmissions_before;
	__u32 timeouts_before;
	__u32 flags;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct watched);
} connections SEC(".maps");

/* Flows of a socket that end with a declaration while not all of their data is acknowledged. */
struct unacked {
	__u32 ends[MAX_UNACKED]; /* the sequence number after each flow's last byte */
	__u32 first;		 /* the oldest is at first % MAX_UNACKED */
	__u32 count;
	struct watch_connection flows[MAX_UNACKED];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct unacked);
} unacked_flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct watch_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct watch_losses);
} losses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} ended SEC(".maps");

/* The addresses of watched sockets, IPv4 as mapped into IPv6. They tell which connections have both ends here. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_ADDRESSES);
	__type(key, __u8[16]);
	__type(value, __u8);
} addresses SEC(".maps");

/* The names of cgroups whose sockets have carried flows. They outlive the cgroup, as a container may be short. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_CGROUPS);
	__type(key, __u64);
	__type(value, struct watch_cgroup);
} cgroups SEC(".maps");

static const struct watch_cgroup no_names;

/* Sockets that have an entry of unacked flows in use. */
__u32 sockets_with_unacked = 0;

/* The entry of a live connection; NULL if the connection is not watched. */
static __always_inline struct watched *watched_of(struct tcp_sock *tp)
{
	struct watched *w = bpf_sk_storage_get(&connections, tp, 0, 0);

	return w && w->start_ns ? w : NULL;
}

static __always_inline struct watch_losses *loss_counters(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&losses, &key);
}

/* Is this a namespace whose sockets are watched: the agent's own, or with `others` one that no agent serves? */
static __always_inline int is_watched_namespace(const struct watch_settings *set, const struct net *net)
{
	__u64 cookie = net->net_cookie;

	return net->ns.inum == set->namespace_inode || (set->others && !bpf_map_lookup_elem(&sluice_host_4, &cookie));
}

/* Must this connection be watched? The agents' own connections, at own_port, are left out. */
static __always_inline int must_watch(struct tcp_sock *tp, int active)
{
	struct inet_sock *inet = &tp->inet_conn.icsk_inet;
	__u32 key = 0;
	struct watch_settings *set = bpf_map_lookup_elem(&settings, &key);
	__u16 port = bpf_ntohs(active ? inet->sk.__sk_common.skc_dport : inet->inet_sport);

	return set && is_watched_namespace(set, inet->sk.__sk_common.skc_net.net) &&
	       (!set->own_port || port != set->own_port);
}

/* An address of a socket as a key of `addresses`. */
static __always_inline void map_address(__u8 *key, struct inet_sock *inet, int remote)
{
	struct sock_common *sk = &inet->sk.__sk_common;
	__u32 address = remote ? sk->skc_daddr : sk->skc_rcv_saddr;

	if (sk->skc_family == AF_INET6 && remote) {
		BPF_CORE_READ_INTO((__u8(*)[16])key, sk, skc_v6_daddr);
	} else if (sk->skc_family == AF_INET6) {
		BPF_CORE_READ_INTO((__u8(*)[16])key, sk, skc_v6_rcv_saddr);
	} else {
		__builtin_memset(key, 0, 10);
		key[10] = key[11] = 0xFF;
		__builtin_memcpy(key + 12, &address, 4);
	}
}

/* With `others`: note the address of a socket that is watched from now on. Returns WATCH_ELSEWHERE if it is that. */
static __always_inline __u32 note_address(struct tcp_sock *tp)
{
	struct watch_settings *set;
	__u8 key[16], one = 1;
	__u32 zero = 0;

	set = bpf_map_lookup_elem(&settings, &zero);
	if (!set || !set->others)
		return 0;
	map_address(key, &tp->inet_conn.icsk_inet, 0);
	if (!bpf_map_lookup_elem(&addresses, key))
		bpf_map_update_elem(&addresses, key, &one, BPF_ANY);
	return tp->inet_conn.icsk_inet.sk.__sk_common.skc_net.net->ns.inum == set->namespace_inode ? 0
												   : WATCH_ELSEWHERE;
}

static __always_inline int is_other_end_here(struct tcp_sock *tp)
{
	__u8 key[16];

	map_address(key, &tp->inet_conn.icsk_inet, 1);
	return bpf_map_lookup_elem(&addresses, key) != NULL;
}

/* The field of newer kernels. libbpf takes the part of the name after ___ for a variant of tcp_sock. */
struct tcp_sock___timeouts {
	__u16 total_rto; /* wraps */
} __attribute__((preserve_access_index));

static __always_inline __u32 timeouts_of(struct tcp_sock *tp)
{
	struct tcp_sock___timeouts *newer = (void *)tp;

	return bpf_core_field_exists(newer->total_rto) ? newer->total_rto : WATCH_UNKNOWN;
}

static __always_inline struct watched *start_watching(struct tcp_sock *tp, __u32 flags)
{
	struct watched *w = bpf_sk_storage_get(&connections, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	struct watch_losses *loss;

	if (w) {
		__builtin_memset(w, 0, sizeof(*w));
		w->start_ns = bpf_ktime_get_ns();
		w->acked_before = flags & WATCH_ACTIVE;
		w->flags = flags | note_address(tp);
	} else if ((loss = loss_counters())) {
		loss->connections++;
	}
	return w;
}

/* Watch a connection whose start was not seen. Its counters begin now. */
static __always_inline struct watched *adopt(struct tcp_sock *tp)
{
	struct watched *w = start_watching(tp, WATCH_ADOPTED);

	if (w) {
		w->acked_before = tp->bytes_acked;
		w->received_before = tp->bytes_received;
		w->retransmissions_before = tp->total_retrans;
		w->timeouts_before = timeouts_of(tp);
	}
	return w;
}

static __always_inline __u64 saturating_sub(__u64 value, __u64 part)
{
	return value > part ? value - part : 0;
}

/* Has this end closed its direction? Then its FIN is the last byte that must be acknowledged. */
static __always_inline int fin_queued(int state)
{
	return state == BPF_TCP_FIN_WAIT1 || state == BPF_TCP_FIN_WAIT2 || state == BPF_TCP_CLOSING ||
	       state == BPF_TCP_LAST_ACK;
}

static __always_inline struct watch_settings *current_settings(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&settings, &key);
}

/* The kernel's byte counts include a FIN, in both directions. */
static __always_inline int fin_acked(struct tcp_sock *tp, int state)
{
	return fin_queued(state) && tp->write_seq == tp->snd_una;
}

static __always_inline int fin_received(struct tcp_sock *tp)
{
	return (tp->inet_conn.icsk_inet.sk.__sk_common.skc_flags >> SOCK_DONE) & 1;
}

/* Payload that was written but is not acknowledged. */
static __always_inline __u32 pending_bytes(struct tcp_sock *tp, int state)
{
	__u32 behind = tp->write_seq - tp->snd_una;

	return behind && fin_queued(state) ? behind - 1 : behind;
}

/* The part of it that belongs to earlier flows. */
static __always_inline __u32 earlier_bytes(struct tcp_sock *tp, struct watched *w)
{
	return saturating_sub(w->acked_before, tp->bytes_acked);
}

static __always_inline void fill_flow(struct watch_connection *c, struct tcp_sock *tp, struct watched *w)
{
	struct socket_flow *flow;
	int declared;

	c->told_start_ns = w->told_start_ns;
	c->told_deadline_ns = w->told_deadline_ns;
	if (w->first_sent_ns)
		return;
	/* An adopted connection: no write was seen yet. */
	flow = bpf_sk_storage_get(&sluice_flow_2, tp, 0, 0);
	declared = flow && flow->declared.deadline_ns;
	c->told_start_ns = declared ? flow->declared.start_ns : 0;
	c->told_deadline_ns = declared ? flow->declared.deadline_ns : 0;
}

static __always_inline void fill_counters(struct watch_connection *c, struct tcp_sock *tp, struct watched *w,
					  int state)
{
	__u32 timeouts = timeouts_of(tp);

	c->pending_bytes = pending_bytes(tp, state) - earlier_bytes(tp, w);
	c->sent_bytes = saturating_sub(tp->bytes_acked, w->acked_before + fin_acked(tp, state));
	c->received_bytes = saturating_sub(tp->bytes_received, w->received_before + fin_received(tp));
	c->retransmissions = tp->total_retrans - w->retransmissions_before;
	c->timeouts = timeouts == WATCH_UNKNOWN ? timeouts : (__u16)(timeouts - w->timeouts_before);
	c->srtt_us = tp->srtt_us >> SRTT_SHIFT;
	c->min_rtt_us = tp->rtt_min.s[0].v;
	c->sent_at_ns = w->sent_at_ns;
	c->last_sent_ns = w->last_sent_ns;
	if (!c->sent_at_ns && !c->pending_bytes) {
		c->sent_at_ns = tp->delivered_mstamp * NSEC_PER_USEC;
		c->last_sent_ns = tp->first_tx_mstamp * NSEC_PER_USEC;
	}
}

static __always_inline void fill_ends(struct watch_connection *c, struct inet_sock *inet)
{
	struct sock_common *sk = &inet->sk.__sk_common;

	c->family = sk->skc_family;
	c->local_port = bpf_ntohs(inet->inet_sport);
	c->remote_port = bpf_ntohs(sk->skc_dport);
	__builtin_memset(c->local, 0, sizeof(c->local));
	__builtin_memset(c->remote, 0, sizeof(c->remote));
	if (c->family == AF_INET) {
		__builtin_memcpy(c->local, &sk->skc_rcv_saddr, 4);
		__builtin_memcpy(c->remote, &sk->skc_daddr, 4);
	} else if (c->family == AF_INET6) {
		BPF_CORE_READ_INTO(&c->local, sk, skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO(&c->remote, sk, skc_v6_daddr);
	}
}

/* The id of a socket's cgroup, whose names are in `cgroups` from then on. The socket keeps the cgroup alive. */
static __noinline __u64 cgroup_of(struct sock *sk)
{
	struct watch_settings *set = current_settings();
	struct watch_cgroup *around;
	struct cgroup *group;
	__u64 id, outer;
	int i;

	if (!set || !bpf_core_field_exists(sk->sk_cgrp_data))
		return 0;
	group = BPF_CORE_READ(sk, sk_cgrp_data.cgroup);
	id = outer = BPF_CORE_READ(group, kn, id);
	if (!id || bpf_map_lookup_elem(&cgroups, &id) || bpf_map_update_elem(&cgroups, &id, &no_names, BPF_ANY))
		return id;
	around = bpf_map_lookup_elem(&cgroups, &id);
	for (i = 0; around && i < WATCH_CGROUP_LEVELS && outer && outer != set->cgroup_root; i++) {
		bpf_probe_read_kernel_str(around->names[i], WATCH_CGROUP_BYTES, BPF_CORE_READ(group, kn, name));
		group = BPF_CORE_READ(group, self.parent, cgroup);
		outer = BPF_CORE_READ(group, kn, id);
	}
	return id;
}

static __always_inline void fill(struct watch_connection *c, struct tcp_sock *tp, struct watched *w, int state)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;

	c->cookie = bpf_get_socket_cookie(tp);
	c->start_ns = w->start_ns;
	c->first_sent_ns = w->first_sent_ns;
	c->read_ns = bpf_ktime_get_ns();
	c->received_at_ns = w->received_at_ns ?: fin_received(tp) ? c->read_ns : 0;
	c->error = sk->sk_err;
	c->state = state;
	c->cgroup = cgroup_of(sk);
	c->flags =
		w->flags | (tp->snd_nxt == tp->write_seq ? WATCH_SENT : 0) | (is_other_end_here(tp) ? WATCH_BOTH : 0);
	fill_counters(c, tp, w, state);
	fill_flow(c, tp, w);
	fill_ends(c, &tp->inet_conn.icsk_inet);
	__builtin_memset(c->control, 0, sizeof(c->control));
	bpf_probe_read_kernel_str(c->control, sizeof(c->control), tp->inet_conn.icsk_ca_ops->name);
}

static __always_inline int carried_data(struct tcp_sock *tp, struct watched *w, int state)
{
	return tp->bytes_acked > w->acked_before + fin_acked(tp, state) ||
	       tp->bytes_received > w->received_before + fin_received(tp);
}

#endif
