/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The frame of a congestion control around one law. A control of laws/hooks.h includes cc_file.bpf.h instead, which
 * does all of this. A control first defines
 *
 *   CC              its name in policy/controls.py
 *   CC_EXACT_ECHO   1: its receiver echoes the mark of each packet; 0: as in RFC 3168
 *   CC_READS_MARKS  1: its packets ask for marks
 *   CC_GROWS        1: a window grows by as many packets as the policy says; 0: by one
 *   CC_BEGIN(sk)    if it has anything to do when a connection begins
 *   CC_MOVE(sk, s)  if it moves its window itself
 *
 * then includes this file, and then defines the law. The frame calls it at the end of each window of data, with the
 * inputs in the record:
 *
 *   static __always_inline void law(struct sock *sk, struct socket_flow *flow,
 *                                   struct sl_window_record *w);
 *
 * The law sets w->penalty_q20: a mark cuts to cwnd * (1 - p / 2), until the next window has ended.
 * It sets w->bound (of the window; 0: none), and urgency, precedence and rate for programs that
 * read them. `flow` is NULL if the kernel had no memory for the socket's entry.
 *
 *   ACK                 count acknowledged and marked packets; at the end of a window call the law
 *   ECE, once a window  the kernel enters CWR and calls `ssthresh`: the cut
 *   loss                half the window before the cut
 *   growth              slow start and congestion avoidance of Reno, up to the bound; a window of
 *                       data without marks adds one packet, or as many as the host's policy says
 */
#ifndef SLUICE_CC_OPS_BPF_H
#define SLUICE_CC_OPS_BPF_H

#include "cc.bpf.h"
#include "socket_tag.bpf.h"
#include "tag_of_flow.bpf.h"
#include "windows.h"

_Static_assert((int)SL_SENDING == (int)SLUICE_SENDING && (int)SL_SUSPENDED == (int)SLUICE_SUSPENDED &&
		       (int)SL_KILLED == (int)SLUICE_KILLED,
	       "the laws' phases equal those in sluice.h");
_Static_assert((int)SL_QUENCH_KILL == (int)SLUICE_QUENCH_KILL && (int)SL_QUENCH_SUSPEND == (int)SLUICE_QUENCH_SUSPEND,
	       "the laws' quenching equals that in sluice.h");

#define CC_TEXT_(name) #name
#define CC_TEXT(name) CC_TEXT_(name)
#define CC_JOIN_(a, b) a##b
#define CC_JOIN(a, b) CC_JOIN_(a, b)
#define CC_NAME CC_JOIN(sluice_, CC)

#define SRTT_SHIFT 3 /* the kernel keeps eight times the smoothed round-trip time */

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct window_log);
} sluice_log_2 SEC(".maps"); /* 2: the layout */

struct cc {
	struct cc_sender sender;
	struct cc_receiver receiver;
	__u32 alpha_q20;
	__u32 penalty_q20;
	__u32 bound;	   /* packets; 0: none */
	__u32 growth;	   /* packets that a window of data adds */
	__u64 began_us;	   /* start of this window, in tcp_mstamp */
	__u64 bytes_acked; /* of the connection at that time */
};

_Static_assert(sizeof(struct cc) <= sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv), "fits the socket");

static __always_inline void law(struct sock *sk, struct socket_flow *flow, struct sl_window_record *w);

static __always_inline void begin(struct sock *sk, struct cc *ca)
{
	cc_begin(sk, &ca->sender);
	ca->receiver.prior_rcv_nxt = tcp_sk(sk)->rcv_nxt;
	ca->receiver.ce = 0;
	ca->alpha_q20 = SL_DCTCP_ALPHA_ONE;
	ca->penalty_q20 = SL_DCTCP_ALPHA_ONE;
	ca->bound = 0;
	ca->growth = CC_GROWS ? growth_of(sk) : 1;
	ca->began_us = tcp_sk(sk)->tcp_mstamp;
	ca->bytes_acked = tcp_sk(sk)->bytes_acked;
#ifdef CC_BEGIN
	CC_BEGIN(sk);
#endif
}

/*
 * Copy the declared flow into the record, as of now; nothing if all of it is acknowledged.
 * late_is_plain: a passed deadline counts as none.
 */
static __always_inline void read_declared(const struct tcp_sock *tp, const struct socket_flow *flow,
					  int late_is_plain, struct sl_window_record *w)
{
	const struct declared_flow *declared = &flow->declared;
	__u64 acked = tp->bytes_acked > declared->first_byte ? tp->bytes_acked - declared->first_byte : 0;

	if ((declared->fields & SLUICE_HAS_SIZE) && acked >= declared->size_bytes)
		return;
	if (declared->fields & SLUICE_HAS_SIZE) {
		w->flags |= SL_WINDOW_HAS_SIZE;
		w->remaining_bytes = sl_remaining_bytes(declared->size_bytes, acked);
	}
	if ((declared->fields & SLUICE_HAS_DEADLINE) && !(w->at_ns >= declared->deadline_ns && late_is_plain)) {
		w->flags |= SL_WINDOW_HAS_DEADLINE;
		w->left_ns = declared->deadline_ns > w->at_ns ? declared->deadline_ns - w->at_ns : 0;
		w->elapsed_ns = w->at_ns > declared->start_ns ? w->at_ns - declared->start_ns : 0;
	}
}

static __always_inline void read_window(struct sock *sk, const struct cc *ca, const struct sl_window_sum *sum,
					struct sl_window_record *w)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	w->at_ns = bpf_ktime_get_ns();
	w->took_us = tp->tcp_mstamp > ca->began_us ? tp->tcp_mstamp - ca->began_us : 1;
	w->acked_bytes = tp->bytes_acked - ca->bytes_acked;
	w->acked = sum->acked;
	w->marked = sum->marked;
	w->cwnd = tp->snd_cwnd;
	w->rtt_us = tp->srtt_us >> SRTT_SHIFT;
	w->mss_bytes = tp->mss_cache;
	w->flags = tp->snd_cwnd < tp->snd_ssthresh ? SL_WINDOW_SLOW_START : 0;
	w->alpha_q20 = ca->alpha_q20;
	w->urgency_q16 = SL_DATCP_ONE_Q16;
	w->cuts = ca->sender.cuts;
	w->cut_from = ca->sender.cwnd_before_cut;
	w->cut_to = ca->sender.ssthresh;
	w->cut_penalty_q20 = ca->penalty_q20;
	w->growth = ca->growth;
}

/* For getsockopt(SLUICE_STATE). */
static __always_inline void publish_state(struct socket_flow *flow, const struct sl_window_record *w)
{
	struct sluice_state *state = &flow->state;

	state->windows++;
	state->phase = w->phase;
	state->rate_bytes_per_s = w->rate_bytes_per_s;
	state->wanted_bytes_per_s = (w->flags & SL_WINDOW_HAS_SIZE) && (w->flags & SL_WINDOW_HAS_DEADLINE)
					    ? sl_rate_bytes_per_s(w->remaining_bytes, w->left_ns / 1000)
					    : 0;
	state->alpha_q20 = w->alpha_q20;
	state->urgency_q16 = w->urgency_q16;
	state->precedence_q16 = w->precedence_q16;
	state->decrease_q16 = w->penalty_q20 >> 5; /* p / 2, from Q20 to Q16 */
	state->cwnd = w->cwnd;
}

static __always_inline void log_window(struct sock *sk, const struct sl_window_record *w)
{
	struct window_log *log = bpf_sk_storage_get(&sluice_log_2, sk, 0, 0);

	if (log)
		log->records[log->count++ % WINDOWS_KEPT] = *w;
}

static __always_inline void window_ended(struct sock *sk, struct cc *ca, const struct sl_window_sum *sum)
{
	struct socket_flow *flow = bpf_sk_storage_get(&sluice_flow_2, sk, 0, 0);
	struct sl_window_record w = {};

	ca->alpha_q20 = sl_dctcp_alpha(ca->alpha_q20, sum->acked, sum->marked);
	read_window(sk, ca, sum, &w);
	w.rate_bytes_per_s = sl_rate_bytes_per_s(w.acked_bytes, w.took_us);
	if (flow)
		read_declared(tcp_sk(sk), flow, forgets_late(sk), &w);
	law(sk, flow, &w);
	if (flow)
		publish_state(flow, &w);
	log_window(sk, &w);
	ca->penalty_q20 = w.penalty_q20;
	ca->bound = w.bound;
	ca->growth = CC_GROWS ? growth_of(sk) : 1;
	ca->began_us = tcp_sk(sk)->tcp_mstamp;
	ca->bytes_acked = tcp_sk(sk)->bytes_acked;
}

SEC("struct_ops/cc_init")
void BPF_PROG(cc_init, struct sock *sk)
{
	if (CC_READS_MARKS && cc_fell_back(sk))
		return;
	begin(sk, cc_state(sk));
	bpf_sk_storage_get(&sluice_flow_2, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
}

SEC("struct_ops/cc_undo_cwnd")
__u32 BPF_PROG(cc_undo_cwnd, struct sock *sk)
{
	struct cc *ca = cc_state(sk);

	return cc_undo(sk, &ca->sender);
}

/*
 * Has a window of data ended with this ACK? A bunch of ACKs could end several windows at once,
 * while the packets that they allow still wait. Those windows would have a few packets in some
 * microseconds, at rates that no link has. So a window lasts at least three quarters of a round
 * trip.
 */
static __always_inline int has_window_ended(const struct tcp_sock *tp, struct cc *ca, struct sl_window_sum *sum)
{
	__u32 srtt_us = tp->srtt_us >> SRTT_SHIFT;

	return tp->tcp_mstamp - ca->began_us >= srtt_us - srtt_us / 4 &&
	       sl_window_ended(&ca->sender.window, tp->snd_una, tp->snd_nxt, tp->delivered, tp->delivered_ce, sum);
}

static __always_inline void end_window(struct sock *sk, struct cc *ca)
{
	struct sl_window_sum sum;

	if (has_window_ended(tcp_sk(sk), ca, &sum))
		window_ended(sk, ca, &sum);
}

/* The kernel asks before it calls cc_cong_control. If this ACK ends a window, the cut already takes its alpha. */
SEC("struct_ops/cc_ssthresh")
__u32 BPF_PROG(cc_ssthresh, struct sock *sk)
{
	struct cc *ca = cc_state(sk);
	struct socket_flow *flow;

	if (ca->sender.started)
		end_window(sk, ca);
	flow = bpf_sk_storage_get(&sluice_flow_2, sk, 0, 0);
	if (flow)
		flow->state.cuts++;
	return cc_cut(sk, &ca->sender, ca->penalty_q20);
}

/* Takes only the socket, because the other arguments differ between kernel versions. */
SEC("struct_ops/cc_cong_control")
void BPF_PROG(cc_cong_control, struct sock *sk)
{
	struct cc *ca = cc_state(sk);

	if (!ca->sender.started)
		begin(sk, ca);
	end_window(sk, ca);
#ifdef CC_MOVE
	CC_MOVE(sk, &ca->sender);
#else
	cc_control(sk, &ca->sender, ca->penalty_q20, ca->bound, ca->growth);
#endif
}

/*
 * A passed deadline ends with a pause, because later data would stay the most urgent for ever:
 * without a known size the pause counts as the flow's end, and a declared size may be larger than
 * what the program sends.
 */
static __always_inline void drop_passed_deadline(struct sock *sk)
{
	struct socket_flow *flow = bpf_sk_storage_get(&sluice_flow_2, sk, 0, 0);

	if (flow && (flow->declared.fields & SLUICE_HAS_DEADLINE) && bpf_ktime_get_ns() > flow->declared.deadline_ns)
		flow->declared.fields &= ~SLUICE_HAS_DEADLINE;
}

/* Does a direction end that has carried no data? It is no flow, and switches count tagged FINs as ends of flows. */
static __always_inline int only_fin_left(const struct tcp_sock *tp)
{
	__u8 state = ((const struct sock *)tp)->__sk_common.skc_state;

	return (state == TCP_FIN_WAIT1 || state == TCP_LAST_ACK) && !tp->data_segs_out &&
	       tp->write_seq - tp->snd_nxt == 1;
}

/* Where the last packet that may leave now begins, in bytes after the first one. */
static __always_inline __u64 last_begins(const struct tcp_sock *tp)
{
	__u32 in_flight = cc_in_flight(tp), waiting = tp->write_seq - tp->snd_nxt, mss = tp->mss_cache ?: 1;
	__u64 room = (__u64)(tp->snd_cwnd > in_flight ? tp->snd_cwnd - in_flight : 1) * mss;
	__u64 bytes = waiting < room ? waiting : room;

	return bytes ? (bytes - 1) / mss * mss : 0;
}

/* The socket carries the tag of the data that it sends next (socket_tag.bpf.h). */
static __always_inline void tag_next_data(struct sock *sk)
{
	const struct host_settings *host = host_of(sk);
	struct socket_flow *flow = bpf_sk_storage_get(&sluice_flow_2, sk, 0, 0);
	const struct tcp_sock *tp = tcp_sk(sk);
	__u64 sent, attained, now_ns, ahead;

	if (!flow)
		return;
	if (!sockets_carry_tags(host)) {
		if (flow->tag.last_data_ns)
			set_dscp(sk, sk, 0);
		flow->tag.last_data_ns = 0; /* from now on a tagger may tag its packets */
		return;
	}
	if (only_fin_left(tp)) {
		carry_tag(sk, sk, host, SL_TAG_UNTAGGED);
		return;
	}
	now_ns = bpf_ktime_get_ns();
	sent = tp->bytes_acked + (tp->snd_nxt - tp->snd_una);
	attained = sl_tag_next(&flow->tag, sent, tp->snd_nxt == tp->snd_una, now_ns,
			       sl_tag_gap_ns(host->tags.idle_gap_ns, tp->srtt_us >> SRTT_SHIFT));
	ahead = last_begins(tp);
	carry_tag(sk, sk, host, tag_of_flow(flow, sent + ahead, 1, attained + ahead, now_ns, &host->tags));
}

/*
 * The kernel asks for this before it builds packets, so the first packet after a pause fits the new
 * window. CA_EVENT_TX_START comes too late for that, and from Linux 7.1 on not through cwnd_event.
 */
SEC("struct_ops/cc_min_tso_segs")
__u32 BPF_PROG(cc_min_tso_segs, struct sock *sk)
{
	struct cc *ca = cc_state(sk);
	__u32 timeouts = cc_idle_timeouts(sk);

	if (timeouts && ca->sender.idle_since != tcp_sk(sk)->lsndtime) {
		ca->sender.idle_since = tcp_sk(sk)->lsndtime;
#ifndef CC_MOVE
		cc_restart(sk, &ca->sender, timeouts);
#endif
		drop_passed_deadline(sk);
	}
	tag_next_data(sk);
	return sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_min_tso_segs;
}

SEC("struct_ops/cc_cwnd_event")
void BPF_PROG(cc_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct cc *ca = cc_state(sk);

	if (CC_EXACT_ECHO)
		cc_receiver_event(sk, &ca->receiver, event);
}

SEC(".struct_ops")
struct tcp_congestion_ops CC_NAME = {
	.init = (void *)cc_init,
	.ssthresh = (void *)cc_ssthresh,
	.undo_cwnd = (void *)cc_undo_cwnd,
	.cong_control = (void *)cc_cong_control,
	.cwnd_event = (void *)cc_cwnd_event,
	.min_tso_segs = (void *)cc_min_tso_segs,
	.flags = TCP_CONG_NON_RESTRICTED | (CC_READS_MARKS ? TCP_CONG_NEEDS_ECN : 0),
	.name = CC_TEXT(CC_NAME),
};

char LICENSE[] SEC("license") = "GPL";

#endif
