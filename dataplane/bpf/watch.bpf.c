// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Flow watch: every TCP connection of one network namespace, of any program.
 *
 *   inet_sock_set_state    start and end of each connection; the end of one that has carried
 *                          payload goes into a ring buffer
 *   tcp_sendmsg_locked     (tracepoint, Linux 6.16; before it, the function's entry) the program writes: after an idle gap (laws/tag.h) or a declaration, the
 *                          flow before this write goes into the ring buffer, and a new one begins
 *   tcp_probe              only while a declared flow waits for acknowledgements of an earlier one
 *   iterator over storage  the connections that live now
 *   iterator over TCP      once, at the start: adopts the connections that were there before
 *
 * The kernel does not keep the start of a connection. The socket's storage holds it and goes away
 * with the socket. No program here works for packets, except behind a declaration that came before
 * all earlier data was acknowledged.
 *
 * The tracepoint fires for the whole machine; sockets of other namespaces are ignored. It fires
 * before the socket's state changes, and at the end after the port was given back. So the source
 * port comes from the socket's copy.
 */
#include "flow.bpf.h"
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

/* Must this connection be watched? The agents' own connections, at own_port, are left out. */
static __always_inline int must_watch(struct tcp_sock *tp, int active)
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

static __always_inline struct watched *start_watching(struct tcp_sock *tp, __u32 flags)
{
	struct watched *w = bpf_sk_storage_get(&connections, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	struct watch_losses *loss;

	if (w) {
		__builtin_memset(w, 0, sizeof(*w));
		w->start_ns = bpf_ktime_get_ns();
		w->acked_before = flags & WATCH_ACTIVE;
		w->flags = flags;
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
	flow = bpf_sk_storage_get(&sluice_flow_1, tp, 0, 0);
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
	c->timeouts = timeouts == WATCH_UNKNOWN ? timeouts : timeouts - w->timeouts_before;
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
	c->flags = w->flags;
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

static __always_inline void count_lost_record(void)
{
	struct watch_losses *loss = loss_counters();

	if (loss)
		loss->records++;
}

/* Report the flows whose data is acknowledged by now; at the connection's end, all. */
static __always_inline void report_unacked(struct tcp_sock *tp, struct unacked *u, int all)
{
	struct watch_connection *flow;
	__u32 at, i;

	for (i = 0; i < MAX_UNACKED && u->count; i++) {
		at = u->first % MAX_UNACKED;
		flow = &u->flows[at];
		if ((__s32)(tp->snd_una - u->ends[at]) >= 0) {
			/* A packet later: the time is of the acknowledgement that covered the last byte. */
			flow->sent_at_ns = tp->delivered_mstamp * NSEC_PER_USEC;
			flow->last_sent_ns = tp->first_tx_mstamp * NSEC_PER_USEC;
			flow->sent_bytes += flow->pending_bytes;
			flow->pending_bytes = 0;
		} else if (!all) {
			break;
		}
		flow->error = tp->inet_conn.icsk_inet.sk.sk_err;
		flow->read_ns = bpf_ktime_get_ns();
		if (bpf_ringbuf_output(&ended, flow, sizeof(*flow), BPF_RB_NO_WAKEUP))
			count_lost_record();
		u->first++;
		if (!--u->count)
			__sync_fetch_and_sub(&sockets_with_unacked, 1);
	}
}

static __always_inline void report_end(struct tcp_sock *tp, struct watched *w, int state)
{
	struct unacked *u = sockets_with_unacked ? bpf_sk_storage_get(&unacked_flows, tp, 0, 0) : NULL;
	struct watch_connection *c;

	if (u)
		report_unacked(tp, u, 1);
	if (state == BPF_TCP_SYN_SENT || !carried_data(tp, w, state))
		return;
	c = bpf_ringbuf_reserve(&ended, sizeof(*c), 0);
	if (c) {
		fill(c, tp, w, state);
		bpf_ringbuf_submit(c, BPF_RB_NO_WAKEUP); /* user space reads several times a second */
	} else {
		count_lost_record();
	}
}

/* ---- flows of one connection */

/* The tag's law: the last data left more than the idle gap ago, and all is acknowledged. */
static __always_inline int is_idle(struct tcp_sock *tp, struct watched *w, __u64 now_ns)
{
	struct watch_settings *set = current_settings();
	struct sl_tag_state law = {.last_data_ns = w->start_ns};
	__u64 gap_ns = set && set->idle_gap_ns ? set->idle_gap_ns : SL_DEFAULT_IDLE_GAP_NS;

	if (tp->write_seq != tp->snd_una)
		return 0;
	if (tp->bytes_acked > w->acked_before)
		law.last_data_ns = tp->first_tx_mstamp * NSEC_PER_USEC;
	return sl_tag_idle(&law, now_ns, sl_tag_gap_ns(gap_ns, tp->srtt_us >> SRTT_SHIFT));
}

static __always_inline void mark_followed(struct watch_connection *c, struct tcp_sock *tp, struct watched *w)
{
	if (!(w->flags & WATCH_ACTIVE)) /* what came later is the next request */
		c->received_bytes = saturating_sub(w->received_at_write, w->received_before);
	c->flags |= WATCH_NEXT;
	if (!c->received_at_ns)
		c->received_at_ns = tp->tcp_mstamp * NSEC_PER_USEC; /* of the last packet */
}

/* Report the flow before this write. 0: it must wait for acknowledgements, and there is no room. */
static __always_inline int report_flow(struct tcp_sock *tp, struct watched *w, int state)
{
	struct watch_connection *c;
	struct unacked *u;
	__u32 at;

	if (tp->write_seq == tp->snd_una) {
		c = bpf_ringbuf_reserve(&ended, sizeof(*c), 0);
		if (!c) {
			count_lost_record();
			return 1;
		}
		fill(c, tp, w, state);
		mark_followed(c, tp, w);
		bpf_ringbuf_submit(c, BPF_RB_NO_WAKEUP);
		return 1;
	}
	u = bpf_sk_storage_get(&unacked_flows, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!u)
		return 0;
	report_unacked(tp, u, 0);
	if (u->count >= MAX_UNACKED)
		return 0;
	if (!u->count++)
		__sync_fetch_and_add(&sockets_with_unacked, 1);
	at = (u->first + u->count - 1) % MAX_UNACKED;
	u->ends[at] = tp->write_seq;
	fill(&u->flows[at], tp, w, state);
	mark_followed(&u->flows[at], tp, w);
	return 1;
}

/*
 * What arrived before this write: at the end that opened the connection, answers to the flow
 * before; at the other end, the request that this write answers.
 */
static __always_inline void next_flow(struct tcp_sock *tp, struct watched *w, __u64 now_ns)
{
	__u64 received = tp->bytes_received;

	/* Otherwise the compiler selects a pointer first, and the verifier refuses the load. */
	barrier_var(received);
	if (!(w->flags & WATCH_ACTIVE))
		received = w->received_at_write;
	w->acked_before = tp->bytes_acked + (__u32)(tp->write_seq - tp->snd_una);
	w->received_before = received;
	w->retransmissions_before = tp->total_retrans;
	w->timeouts_before = timeouts_of(tp);
	w->start_ns = now_ns;
	w->first_sent_ns = w->last_sent_ns = w->sent_at_ns = 0;
	w->told_start_ns = w->told_deadline_ns = 0;
	w->flags = (w->flags & ~WATCH_ADOPTED) | WATCH_LATER | WATCH_PART;
}

/* The declaration that the program made since its last write; NULL: none. */
static __always_inline struct declared_flow *new_declaration(struct tcp_sock *tp, struct watched *w)
{
	struct socket_flow *flow = bpf_sk_storage_get(&sluice_flow_1, tp, 0, 0);

	return flow && flow->declared.start_ns != w->declared_ns ? &flow->declared : NULL;
}

static __always_inline int has_written(struct tcp_sock *tp, struct watched *w)
{
	return tp->bytes_acked + (__u32)(tp->write_seq - tp->snd_una) > w->acked_before;
}

static __always_inline void before_write(struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct watched *w = tp ? watched_of(tp) : NULL;
	__u64 now_ns = bpf_ktime_get_ns();
	struct declared_flow *declared;
	int state, idle;

	if (!w)
		return;
	state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;
	declared = new_declaration(tp, w);
	idle = is_idle(tp, w, now_ns);
	if (state == BPF_TCP_ESTABLISHED || state == BPF_TCP_CLOSE_WAIT) {
		if (!has_written(tp, w)) {
			/* Of a pooled connection, only the flow counts, not the wait for it. */
			if (!w->first_sent_ns && (idle || !(w->flags & WATCH_ACTIVE)))
				w->flags |= WATCH_LATER;
		} else if ((idle || declared) && report_flow(tp, w, state)) {
			next_flow(tp, w, now_ns);
		}
	}
	if (!w->first_sent_ns)
		w->first_sent_ns = now_ns;
	w->received_at_write = tp->bytes_received;
	if (declared) {
		w->declared_ns = declared->start_ns;
		w->told_start_ns = declared->deadline_ns ? declared->start_ns : 0;
		w->told_deadline_ns = declared->deadline_ns;
	}
}

SEC("?tp_btf/tcp_sendmsg_locked")
int BPF_PROG(sluice_watch_write, struct sock *sk)
{
	before_write(sk);
	return 0;
}

SEC("?fentry/tcp_sendmsg_locked")
int BPF_PROG(sluice_watch_enter, struct sock *sk)
{
	before_write(sk);
	return 0;
}

/* Fires before the kernel processes a packet, so it sees the acknowledgements of the packet before. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(sluice_watch_ack, struct sock *sk)
{
	struct tcp_sock *tp;
	struct unacked *u;

	if (!sockets_with_unacked)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	u = tp ? bpf_sk_storage_get(&unacked_flows, tp, 0, 0) : NULL;
	if (u)
		report_unacked(tp, u, 0);
	return 0;
}

/*
 * On a state change: keep the time at which a direction has closed. This end's FIN would change
 * delivered_mstamp.
 */
static __always_inline void keep_times(struct tcp_sock *tp, struct watched *w, int from, int to)
{
	if ((to == BPF_TCP_FIN_WAIT1 || to == BPF_TCP_LAST_ACK) && !pending_bytes(tp, from)) {
		w->sent_at_ns = tp->delivered_mstamp * NSEC_PER_USEC;
		w->last_sent_ns = tp->first_tx_mstamp * NSEC_PER_USEC;
	}
	if (to == BPF_TCP_CLOSE_WAIT || to == BPF_TCP_CLOSING)
		w->received_at_ns = bpf_ktime_get_ns();
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(sluice_watch, struct sock *sk, int from, int to)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct watched *w;

	if (!tp)
		return 0;
	w = watched_of(tp);
	if (w && to == BPF_TCP_CLOSE) {
		report_end(tp, w, from);
		/* The storage goes with its socket: here, it took 26 us a connection on two busy cores. */
		w->start_ns = 0;
	} else if (w) {
		keep_times(tp, w, from, to);
	} else if (to == BPF_TCP_SYN_SENT && must_watch(tp, 1)) {
		start_watching(tp, WATCH_ACTIVE);
	} else if (from == BPF_TCP_SYN_RECV && to == BPF_TCP_ESTABLISHED && must_watch(tp, 0)) {
		start_watching(tp, 0);
	}
	return 0;
}

/* Write a struct watch_connection for each live watched connection. Visits no other sockets. */
SEC("iter/bpf_sk_storage_map")
int sluice_watch_live(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct watched *w = ctx->value;
	struct sock *sk = ctx->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL; /* the last call has no socket */
	struct watch_connection c = {};
	int state;

	if (!tp || !w || !w->start_ns)
		return 0;
	state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;
	if (state == BPF_TCP_SYN_SENT || state == BPF_TCP_CLOSE)
		return 0;
	fill(&c, tp, w, state);
	bpf_seq_write(ctx->meta->seq, &c, sizeof(c));
	return 0;
}

/* Visit all connections of the machine; adopt those whose start was not seen. Writes nothing. */
SEC("iter/tcp")
int sluice_watch_adopt(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;
	int state;

	if (!tp || watched_of(tp))
		return 0;
	state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;
	if (state != BPF_TCP_LISTEN && state != BPF_TCP_SYN_SENT && state != BPF_TCP_CLOSE && must_watch(tp, 0) &&
	    must_watch(tp, 1))
		adopt(tp);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
