// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Flow watch: every TCP connection of one network namespace, whatever program has opened it.
 *
 *   inet_sock_set_state   begin and end of each connection; the end goes into a ring buffer if payload was carried
 *   iterator over storage the connections that live now
 *   iterator over TCP     once, in the beginning: adopts the connections that were there before
 *
 * What the kernel does not keep (the begin) lies in the socket's storage and goes away with the socket. A packet costs
 * nothing: nothing here runs for packets.
 *
 * The tracepoint fires for the whole machine; sockets of other namespaces are left alone. It fires before the
 * socket's state changes, and at the end after the port has been given back: the source port is the socket's copy.
 */
#include "flow.bpf.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>
#include "watch.h"

#define AF_INET 2
#define AF_INET6 10
#define NSEC_PER_USEC 1000
#define SRTT_SHIFT 3 /* the kernel keeps eight times the smoothed round-trip time */
#define RING_BYTES (1 << 20)

/* What a socket remembers while it is watched. The counters: as they were before the first byte that is counted. */
struct opened {
	__u64 start_ns; /* 0: the connection has ended; the program may connect the socket again */
	__u64 sent_at_ns;
	__u64 received_at_ns;
	__u64 acked_before; /* a SYN counts as a byte where it is acknowledged to who opens the connection */
	__u64 received_before;
	__u32 retransmissions_before;
	__u32 timeouts_before;
	__u32 flags;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct opened);
} connections SEC(".maps");

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

/* What is remembered of a connection that lives; NULL when it is not watched. */
static __always_inline struct opened *recall(struct tcp_sock *tp)
{
	struct opened *o = bpf_sk_storage_get(&connections, tp, 0, 0);

	return o && o->start_ns ? o : NULL;
}

static __always_inline struct watch_losses *lost(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&losses, &key);
}

/* Is this a connection that is to be watched? `own` is the port by which the agents' own connections are known. */
static __always_inline int is_wanted(struct tcp_sock *tp, int active)
{
	struct inet_sock *inet = &tp->inet_conn.icsk_inet;
	__u32 key = 0;
	struct watch_settings *set = bpf_map_lookup_elem(&settings, &key);
	__u16 port = bpf_ntohs(active ? inet->sk.__sk_common.skc_dport : inet->inet_sport);

	return set && inet->sk.__sk_common.skc_net.net->ns.inum == set->namespace_inode &&
	       (!set->own_port || port != set->own_port);
}

static __always_inline __u32 timeouts_of(struct tcp_sock *tp)
{
	return bpf_core_field_exists(tp->total_rto) ? tp->total_rto : WATCH_UNKNOWN;
}

static __always_inline struct opened *remember(struct tcp_sock *tp, __u32 flags)
{
	struct opened *o = bpf_sk_storage_get(&connections, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	struct watch_losses *loss;

	if (o) {
		__builtin_memset(o, 0, sizeof(*o));
		o->start_ns = bpf_ktime_get_ns();
		o->acked_before = flags & WATCH_ACTIVE;
		o->flags = flags;
	} else if ((loss = lost())) {
		loss->connections++;
	}
	return o;
}

/* A connection whose begin was not seen: it counts from now on. */
static __always_inline struct opened *adopt(struct tcp_sock *tp)
{
	struct opened *o = remember(tp, WATCH_ADOPTED);

	if (o) {
		o->acked_before = tp->bytes_acked;
		o->received_before = tp->bytes_received;
		o->retransmissions_before = tp->total_retrans;
		o->timeouts_before = timeouts_of(tp);
	}
	return o;
}

/* Has this end said that it sends no more? Then its FIN is the last byte of what is to be acknowledged. */
static __always_inline int fin_queued(int state)
{
	return state == BPF_TCP_FIN_WAIT1 || state == BPF_TCP_FIN_WAIT2 || state == BPF_TCP_CLOSING ||
	       state == BPF_TCP_LAST_ACK;
}

/* The kernel's counts of bytes take a FIN for a byte, here and there. */
static __always_inline int fin_acked(struct tcp_sock *tp, int state)
{
	return fin_queued(state) && tp->write_seq == tp->snd_una;
}

static __always_inline int fin_received(struct tcp_sock *tp)
{
	return (tp->inet_conn.icsk_inet.sk.__sk_common.skc_flags >> SOCK_DONE) & 1;
}

static __always_inline __u64 less(__u64 value, __u64 part)
{
	return value > part ? value - part : 0;
}

/* Payload that was written and is not acknowledged. */
static __always_inline __u32 pending_bytes(struct tcp_sock *tp, int state)
{
	__u32 behind = tp->write_seq - tp->snd_una;

	return behind && fin_queued(state) ? behind - 1 : behind;
}

static __always_inline void fill_flow(struct watch_connection *c, struct tcp_sock *tp)
{
	struct socket_flow *flow = bpf_sk_storage_get(&sluice_flow_1, tp, 0, 0);
	int told = flow && flow->told.deadline_ns;

	c->told_start_ns = told ? flow->told.start_ns : 0;
	c->told_deadline_ns = told ? flow->told.deadline_ns : 0;
}

static __always_inline void fill_counters(struct watch_connection *c, struct tcp_sock *tp, struct opened *o,
					  int state)
{
	__u32 timeouts = timeouts_of(tp);

	c->pending_bytes = pending_bytes(tp, state);
	c->sent_bytes = less(tp->bytes_acked, o->acked_before + fin_acked(tp, state));
	c->received_bytes = less(tp->bytes_received, o->received_before + fin_received(tp));
	c->retransmissions = tp->total_retrans - o->retransmissions_before;
	c->timeouts = timeouts == WATCH_UNKNOWN ? timeouts : timeouts - o->timeouts_before;
	c->srtt_us = tp->srtt_us >> SRTT_SHIFT;
	c->sent_at_ns = o->sent_at_ns;
	if (!c->sent_at_ns && !c->pending_bytes)
		c->sent_at_ns = tp->delivered_mstamp * NSEC_PER_USEC;
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

static __always_inline void fill(struct watch_connection *c, struct tcp_sock *tp, struct opened *o, int state)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;

	c->cookie = bpf_get_socket_cookie(tp);
	c->start_ns = o->start_ns;
	c->read_ns = bpf_ktime_get_ns();
	c->received_at_ns = o->received_at_ns ?: fin_received(tp) ? c->read_ns : 0;
	c->error = sk->sk_err;
	c->state = state;
	c->flags = o->flags;
	fill_counters(c, tp, o, state);
	fill_flow(c, tp);
	fill_ends(c, &tp->inet_conn.icsk_inet);
	__builtin_memset(c->control, 0, sizeof(c->control));
	bpf_probe_read_kernel_str(c->control, sizeof(c->control), tp->inet_conn.icsk_ca_ops->name);
}

static __always_inline int carried_data(struct tcp_sock *tp, struct opened *o, int state)
{
	return tp->bytes_acked > o->acked_before + fin_acked(tp, state) ||
	       tp->bytes_received > o->received_before + fin_received(tp);
}

static __always_inline void end(struct tcp_sock *tp, struct opened *o, int state)
{
	struct watch_connection *c;
	struct watch_losses *loss;

	if (state == BPF_TCP_SYN_SENT || !carried_data(tp, o, state))
		return;
	c = bpf_ringbuf_reserve(&ended, sizeof(*c), 0);
	if (c) {
		fill(c, tp, o, state);
		bpf_ringbuf_submit(c, BPF_RB_NO_WAKEUP); /* user space looks several times a second */
	} else if ((loss = lost())) {
		loss->records++;
	}
}

/* A connection that goes on. Whatever comes after this end's FIN is no payload's time any more. */
static __always_inline void proceed(struct tcp_sock *tp, struct opened *o, int from, int to)
{
	if ((to == BPF_TCP_FIN_WAIT1 || to == BPF_TCP_LAST_ACK) && !pending_bytes(tp, from))
		o->sent_at_ns = tp->delivered_mstamp * NSEC_PER_USEC;
	if (to == BPF_TCP_CLOSE_WAIT || to == BPF_TCP_CLOSING)
		o->received_at_ns = bpf_ktime_get_ns();
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(sluice_watch, struct sock *sk, int from, int to)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct opened *o;

	if (!tp)
		return 0;
	o = recall(tp);
	if (o && to == BPF_TCP_CLOSE) {
		end(tp, o, from);
		o->start_ns = 0; /* freed with the socket: here, it took 26 us a connection on two busy cores */
	} else if (o) {
		proceed(tp, o, from, to);
	} else if (to == BPF_TCP_SYN_SENT && is_wanted(tp, 1)) {
		remember(tp, WATCH_ACTIVE);
	} else if (from == BPF_TCP_SYN_RECV && to == BPF_TCP_ESTABLISHED && is_wanted(tp, 0)) {
		remember(tp, 0);
	}
	return 0;
}

/* Reading this iterator gives a struct watch_connection for each watched connection that lives; it looks at no other. */
SEC("iter/bpf_sk_storage_map")
int sluice_watch_live(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct opened *o = ctx->value;
	struct sock *sk = ctx->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL; /* none at the end */
	struct watch_connection c = {};
	int state;

	if (!tp || !o || !o->start_ns)
		return 0;
	state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;
	if (state == BPF_TCP_SYN_SENT || state == BPF_TCP_CLOSE)
		return 0;
	fill(&c, tp, o, state);
	bpf_seq_write(ctx->meta->seq, &c, sizeof(c));
	return 0;
}

/* Reading this one, which looks at all the machine's connections, adopts those whose begin was not seen. It says nothing. */
SEC("iter/tcp")
int sluice_watch_adopt(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;
	int state;

	if (!tp || recall(tp))
		return 0;
	state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;
	if (state != BPF_TCP_LISTEN && state != BPF_TCP_SYN_SENT && state != BPF_TCP_CLOSE && is_wanted(tp, 0) &&
	    is_wanted(tp, 1))
		adopt(tp);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
