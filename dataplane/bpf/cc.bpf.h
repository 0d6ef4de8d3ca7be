/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What every ECN-based congestion control here shares: the receiver's echo, the fallback without ECN, kernel names. */
#ifndef SLUICE_CC_BPF_H
#define SLUICE_CC_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "../laws/dctcp.h"

/* include/net/tcp.h: macros, so not in BTF. */
#define TCP_CONG_NON_RESTRICTED 0x1
#define TCP_CONG_NEEDS_ECN 0x2
#define TCP_ECN_OK 0x1
#define TCP_ECN_DEMAND_CWR 0x4
#define SOL_TCP 6
#define TCP_CONGESTION 13

/* A listener or a closed socket cannot know yet whether ECN will be agreed on. */
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

/* The receiver's side: was the last data packet marked, and what had been received before it? */
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
 * A data packet came, with CE or without. RFC 8257, section 3.2: an ACK's ECE tells the CE of the packets that it
 * acknowledges. So when CE changes while an ACK is delayed, that ACK goes out now, for what came before this packet
 * and with the old state; and the new state is told at once too, so that both sides count the same packets.
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

/* To be called from cwnd_event. */
static __always_inline void cc_receiver_event(struct sock *sk, struct cc_receiver *r, enum tcp_ca_event event)
{
	if (event == CA_EVENT_ECN_IS_CE || event == CA_EVENT_ECN_NO_CE)
		cc_receive(sk, r, event == CA_EVENT_ECN_IS_CE);
}

/*
 * The peer refused ECN: nothing would ever be echoed, but our packets would be marked instead of dropped. RFC 8257,
 * section 3.5, wants a conventional sender then: Reno, and the kernel takes ECT off the packets. 1 when it was so.
 */
static __always_inline int cc_fell_back(struct sock *sk)
{
	char reno[] = "reno";

	if ((tcp_sk(sk)->ecn_flags & TCP_ECN_OK) || (1 << sk->__sk_common.skc_state) & SL_CC_UNCONNECTED)
		return 0;
	return !bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
}

/*
 * One halving a window for loss, whatever was cut before in it (RFC 8257, section 3.5): called when the connection
 * enters Recovery or Loss, with the window before the cut that `ssthresh` made.
 */
static __always_inline void cc_loss(struct sock *sk, __u32 cwnd_before_cut)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 halved = sl_loss_cwnd(cwnd_before_cut);

	if (halved < tp->snd_ssthresh)
		tp->snd_ssthresh = halved;
}

#endif
