// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Flow watch: every TCP connection of one network namespace, of any program. The watch of the machine's first namespace
 * also has those of the namespaces that no agent serves, as containers have.
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
 * The tracepoint fires for the whole machine; sockets of other namespaces are ignored. The iterator over TCP visits the
 * agent's own namespace only. The tracepoint fires before the socket's state changes, and at the end after the port was
 * given back. So the source port comes from the socket's copy.
 */
#include "watch_flows.bpf.h"

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

/* Write a struct watch_connection if the connection is open. */
static __always_inline void write_living(struct seq_file *seq, struct tcp_sock *tp, struct watched *w)
{
	int state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;
	struct watch_connection c = {};

	if (state == BPF_TCP_SYN_SENT || state == BPF_TCP_CLOSE)
		return;
	fill(&c, tp, w, state);
	bpf_seq_write(seq, &c, sizeof(c));
}

/* All watched connections, in any network namespace. Visits no other sockets. */
SEC("?iter/bpf_sk_storage_map")
int sluice_watch_all(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct watched *w = ctx->value;
	struct sock *sk = ctx->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL; /* the last call has no socket */

	if (tp && w && w->start_ns)
		write_living(ctx->meta->seq, tp, w);
	return 0;
}

/* Those of this network namespace, for kernels that refuse iterators over maps. */
SEC("?iter/tcp")
int sluice_watch_own(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;
	struct watched *w = tp ? watched_of(tp) : NULL;

	if (w)
		write_living(ctx->meta->seq, tp, w);
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
