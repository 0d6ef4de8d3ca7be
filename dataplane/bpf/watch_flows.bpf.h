/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The flows of one connection: where one ends and the next begins, and their reports. */
#ifndef SLUICE_WATCH_FLOWS_BPF_H
#define SLUICE_WATCH_FLOWS_BPF_H

#include "watch_state.bpf.h"

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
		if ((__s32)(tp->snd_nxt - u->ends[at]) >= 0)
			flow->flags |= WATCH_SENT;
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
	struct unacked *u = sockets_with_unacked ? bpf_sk_storage_get(&unacked_flows, tp, 0, 0) : NULL;
	struct watch_connection *c;
	__u32 at;

	if (u) /* first, as they ended first */
		report_unacked(tp, u, 0);
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
	if (!u || u->count >= MAX_UNACKED)
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
	struct socket_flow *flow = bpf_sk_storage_get(&sluice_flow_2, tp, 0, 0);

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

#endif
