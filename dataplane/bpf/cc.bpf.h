/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The part that all ECN-based congestion controls here share:
 *
 * - the receiver's echo
 * - the course of a reduction
 * - the fallback without ECN
 * - macros of the kernel
 *
 * A control owns its window (`cong_control`). It does not trust a window that the kernel has set,
 * because a kernel may leave out a call of ours. One 6.18 kernel with changes of its own did so in
 * 3 of 8 two-second runs of two flows (2026-11). Then `ssthresh` or `undo_cwnd` seems to return
 * what is on the stack, billions of packets. With the kernel's own reduction, the whole send
 * buffer would leave at once. So each ACK checks that only we have raised the window, and that a
 * cut has taken place. If not, it repairs the window.
 */
#ifndef SLUICE_CC_BPF_H
#define SLUICE_CC_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "../laws/dctcp.h"
#include "../laws/reduction.h"
#include "host.bpf.h"

/* include/net/tcp.h: macros, so not in BTF. */
#define TCP_CONG_NON_RESTRICTED 0x1
#define TCP_CONG_NEEDS_ECN 0x2
#define TCP_ECN_DEMAND_CWR 0x4
#define TCP_INIT_CWND 10
#define DST_METRICS_FLAGS 3UL
#define USEC_PER_SEC 1000000ULL

/* A listener or a closed socket cannot know yet whether the peer will agree to ECN. */
#define SL_CC_UNCONNECTED (1 << TCP_LISTEN | 1 << TCP_CLOSE)

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;

static __always_inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct inet_connection_sock *inet_csk(const struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

/* Private memory of the congestion control in the socket. */
static __always_inline void *cc_state(const struct sock *sk)
{
	return (void *)inet_csk(sk)->icsk_ca_priv;
}

/* The receiver's side: rcv_nxt at the last data packet, and whether that packet had CE. */
struct cc_receiver {
	__u32 prior_rcv_nxt;
	__u32 ce;
};

static __always_inline void cc_echo(struct tcp_sock *tp, __u32 ce)
{
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

/*
 * A data packet came, with or without CE. RFC 8257, section 3.2: an ACK's ECE repeats the CE of
 * the packets that it acknowledges. If CE changes while an ACK is delayed, that ACK leaves now: it
 * covers the packets before this one, with the old state. The new state is also sent at once, so
 * that both sides count the same packets.
 */
static __always_inline void cc_receive(struct sock *sk, struct cc_receiver *r, __u32 ce)
{
	struct inet_connection_sock *csk = inet_csk(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (r->ce != ce) {
		if (csk->icsk_ack.pending & ICSK_ACK_TIMER) {
			cc_echo(tp, r->ce);
			bpf_tcp_send_ack(tp, r->prior_rcv_nxt);
		}
		csk->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	r->prior_rcv_nxt = tp->rcv_nxt;
	r->ce = ce;
	cc_echo(tp, ce);
}

/* For `cwnd_event`. */
static __always_inline void cc_receiver_event(struct sock *sk, struct cc_receiver *r, enum tcp_ca_event event)
{
	if (event == CA_EVENT_ECN_IS_CE || event == CA_EVENT_ECN_NO_CE)
		cc_receive(sk, r, event == CA_EVENT_ECN_IS_CE);
}

/*
 * If the peer refused ECN, change to the control that the host had before ours, and return 1.
 * Otherwise ports would mark our packets instead of dropping them, and no mark would be echoed.
 * RFC 8257, section 3.5, requires a conventional sender in this case. The kernel then takes ECT off
 * the packets.
 */
static __always_inline int cc_fell_back(struct sock *sk)
{
	if ((tcp_sk(sk)->ecn_flags & TCP_ECN_AGREED) || (1 << sk->__sk_common.skc_state) & SL_CC_UNCONNECTED)
		return 0;
	return !use_control_without_ecn(sk, sk);
}

/* The sender's side, without the fields that a control adds. All zero: not started. */
struct cc_sender {
	struct sl_window window;
	__u32 cwnd;		/* as we set it last; the kernel may only lower it */
	__u32 cwnd_before_cut;	/* window before the last cut */
	__u32 ssthresh;		/* target of that cut */
	__u32 snd_nxt_at_cut;	/* equals the kernel's high_seq, unless a call was left out */
	__u32 delivered_at_cut; /* running count before that cut */
	__u32 delivered;	/* running count at the last ACK */
	__u32 snd_una;		/* at the last ACK */
	__u32 idle_since;	/* lsndtime at the last restart */
	__u16 cuts;		/* running count */
	__u8 state;		/* enum tcp_ca_state at the last ACK */
	__u8 cut_pending;	/* 1 from a cut until the next ACK */
	__u8 started;
};

static __always_inline int cc_in_reduction(__u8 state)
{
	return state == TCP_CA_CWR || state == TCP_CA_Recovery;
}

static __always_inline __u32 cc_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

static __always_inline void cc_begin(struct sock *sk, struct cc_sender *s)
{
	struct tcp_sock *tp = tcp_sk(sk);

	sl_window_begin(&s->window, tp->snd_nxt, tp->delivered, tp->delivered_ce);
	s->cwnd = tp->snd_cwnd;
	s->delivered = tp->delivered;
	s->snd_una = tp->snd_una;
	s->snd_nxt_at_cut = tp->snd_nxt - 1; /* no cut yet: high_seq never has this value */
	s->started = 1;
}

/* For `ssthresh`: a congestion event begins. The window must become cwnd * (1 - penalty / 2). */
static __always_inline __u32 cc_cut(struct sock *sk, struct cc_sender *s, __u32 penalty_q20)
{
	struct tcp_sock *tp = tcp_sk(sk);

	/* A reduction that ended with this ACK has reached its target. */
	s->cwnd_before_cut = cc_in_reduction(s->state) ? s->ssthresh : tp->snd_cwnd;
	if (s->started && s->cwnd_before_cut > s->cwnd)
		s->cwnd_before_cut = s->cwnd;
	s->ssthresh = sl_dctcp_cwnd(s->cwnd_before_cut, penalty_q20);
	s->snd_nxt_at_cut = tp->snd_nxt;
	s->delivered_at_cut = s->delivered;
	s->cut_pending = 1;
	s->cuts++;
	return s->ssthresh;
}

/* For `undo_cwnd`: no packet was lost, so the window returns to its size before the cut. */
static __always_inline __u32 cc_undo(struct sock *sk, struct cc_sender *s)
{
	__u32 cwnd = tcp_sk(sk)->snd_cwnd;

	s->cwnd = cwnd > s->cwnd_before_cut ? cwnd : s->cwnd_before_cut;
	s->state = TCP_CA_Open;
	s->cut_pending = 0;
	return s->cwnd;
}

/* Has the kernel started a congestion event without a call of our `ssthresh`? */
static __always_inline int cc_missed_cut(const struct tcp_sock *tp, const struct cc_sender *s, __u8 state)
{
	return state >= TCP_CA_CWR && tp->high_seq != s->snd_nxt_at_cut &&
	       (state == TCP_CA_CWR || s->state < TCP_CA_CWR);
}

static __always_inline __u32 cc_reduced(const struct tcp_sock *tp, const struct cc_sender *s)
{
	struct sl_reduction r = {
		.cwnd_before = s->cwnd_before_cut,
		.target = s->ssthresh,
		.delivered = tp->delivered - s->delivered_at_cut,
		.newly_delivered = tp->delivered - s->delivered,
		.sent = tp->prr_out,
	};

	return sl_reduced_cwnd(&r, cc_in_flight(tp));
}

/*
 * The kernel paces by this rate, and bounds the socket's bytes in its own queues by it. The
 * formula is that of tcp_update_pacing_rate.
 */
static __always_inline void cc_update_pacing(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	__u32 packets = tp->snd_cwnd > tp->packets_out ? tp->snd_cwnd : tp->packets_out;
	__u32 percent = tp->snd_cwnd < tp->snd_ssthresh / 2 ? 200 : 120;
	__u64 rate_bytes_per_s = (__u64)tp->mss_cache * (8 * USEC_PER_SEC / 100) * percent * packets;

	if (tp->srtt_us)
		rate_bytes_per_s /= tp->srtt_us;
	if (rate_bytes_per_s > sk->sk_max_pacing_rate)
		rate_bytes_per_s = sk->sk_max_pacing_rate;
	sk->sk_pacing_rate = rate_bytes_per_s;
}

/*
 * Above slow start, the kernel's Reno adds a packet for each window of packets that it is told of.
 * So a multiple of them makes it add that many.
 */
static __always_inline __u32 cc_told(const struct tcp_sock *tp, __u32 delivered, __u32 growth)
{
	return tp->snd_cwnd < tp->snd_ssthresh ? delivered : delivered * growth;
}

/* Set the window after this ACK. The kernel has already settled `state`. */
static __always_inline void cc_move(struct sock *sk, struct cc_sender *s, __u8 state, __u32 growth)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (state >= TCP_CA_CWR)
		tp->snd_ssthresh = s->ssthresh;
	if (cc_in_reduction(state)) {
		tp->snd_cwnd = cc_reduced(tp, s);
	} else if (state < TCP_CA_CWR && (cc_in_reduction(s->state) || s->cut_pending)) {
		tp->snd_ssthresh = s->ssthresh;
		tp->snd_cwnd = s->ssthresh;
	} else if (tp->snd_una != s->snd_una) {
		tcp_reno_cong_avoid(sk, tp->snd_una, cc_told(tp, tp->delivered - s->delivered, growth));
	}
}

/*
 * For `cong_control`, after the control has evaluated its window of data: move the congestion
 * window. penalty_q20: for a cut that was missed. bound: of the window, in packets; 0: none.
 * growth: packets that a window of data without marks adds.
 *
 * A loss halves the window from before the cut, even if a mark has cut it already. RFC 8257,
 * section 3.5: one reduction a window; the larger one counts.
 */
static __always_inline void cc_control(struct sock *sk, struct cc_sender *s, __u32 penalty_q20, __u32 bound,
				       __u32 growth)
{
	__u8 state = BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state);
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 halved;

	if (tp->snd_cwnd > s->cwnd)
		tp->snd_cwnd = s->cwnd;
	if (cc_missed_cut(tp, s, state))
		cc_cut(sk, s, penalty_q20);
	halved = sl_loss_cwnd(s->cwnd_before_cut);
	if (state > TCP_CA_CWR && s->ssthresh > halved)
		s->ssthresh = halved;
	cc_move(sk, s, state, growth);
	if (bound && tp->snd_cwnd > bound)
		tp->snd_cwnd = bound;
	cc_update_pacing(sk);
	s->cwnd = tp->snd_cwnd;
	s->delivered = tp->delivered;
	s->snd_una = tp->snd_una;
	s->state = state;
	s->cut_pending = 0;
}

/* For how many retransmission timeouts the connection has had nothing to send and nothing in flight. */
static __always_inline __u32 cc_idle_timeouts(const struct sock *sk)
{
	__u32 timeout_jiffies = inet_csk(sk)->icsk_rto;

	if (tcp_sk(sk)->packets_out || !timeout_jiffies)
		return 0;
	return ((__u32)bpf_jiffies64() - tcp_sk(sk)->lsndtime) / timeout_jiffies;
}

/* The route's initial window, or the kernel's, as tcp_init_cwnd. */
static __always_inline __u32 cc_initial_cwnd(const struct sock *sk)
{
	const __u32 *metrics = (const __u32 *)(BPF_CORE_READ(sk, sk_dst_cache, _metrics) & ~DST_METRICS_FLAGS);
	__u32 packets = 0;

	bpf_probe_read_kernel(&packets, sizeof(packets), metrics + RTAX_INITCWND - 1);
	return packets ?: TCP_INIT_CWND;
}

/* As tcp_cwnd_restart, which the kernel does not call for controls that have a `cong_control`. */
static __always_inline void cc_restart(struct sock *sk, struct cc_sender *s, __u32 timeouts)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_slow_start_after_idle)
		return;
	if (!cc_in_reduction(BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state)))
		tp->snd_ssthresh = sl_idle_ssthresh(tp->snd_ssthresh, tp->snd_cwnd);
	tp->snd_cwnd = sl_idle_cwnd(tp->snd_cwnd, cc_initial_cwnd(sk), timeouts);
	s->cwnd = tp->snd_cwnd;
}

#endif
