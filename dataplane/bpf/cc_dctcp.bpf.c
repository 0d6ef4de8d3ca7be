// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * sluice_dctcp: DCTCP as a kernel congestion control (RFC 8257; the law is laws/dctcp.h, the receiver's side cc.bpf.h).
 *
 *   ACK                 count acknowledged and marked packets; at the end of a window update alpha
 *   ECE, once a window  the kernel enters CWR and asks `ssthresh`:  cwnd (1 - alpha / 2); it then shrinks the window
 *                       towards that by proportional rate reduction
 *   loss                halved from the window before the cut (cc_loss)
 *   growth              slow start and congestion avoidance of Reno
 */
#include "cc.bpf.h"

struct dctcp {
	struct sl_window window;
	struct cc_receiver receiver;
	__u32 alpha_q20;
	__u32 cwnd_before_cut; /* packets, when `ssthresh` was last asked */
};

_Static_assert(sizeof(struct dctcp) <= sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv), "fits the socket");

SEC("struct_ops/dctcp_init")
void BPF_PROG(dctcp_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = cc_state(sk);

	if (cc_fell_back(sk))
		return;
	sl_window_begin(&ca->window, tp->snd_nxt, tp->delivered, tp->delivered_ce);
	ca->receiver.prior_rcv_nxt = tp->rcv_nxt;
	ca->receiver.ce = 0;
	ca->alpha_q20 = SL_DCTCP_ALPHA_ONE;
	ca->cwnd_before_cut = tp->snd_cwnd;
}

SEC("struct_ops/dctcp_in_ack_event")
void BPF_PROG(dctcp_in_ack_event, struct sock *sk, __u32 flags)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = cc_state(sk);
	struct sl_window_sum sum;

	if (sl_window_ended(&ca->window, tp->snd_una, tp->snd_nxt, tp->delivered, tp->delivered_ce, &sum))
		ca->alpha_q20 = sl_dctcp_alpha(ca->alpha_q20, sum.acked, sum.marked);
}

SEC("struct_ops/dctcp_ssthresh")
__u32 BPF_PROG(dctcp_ssthresh, struct sock *sk)
{
	struct dctcp *ca = cc_state(sk);

	ca->cwnd_before_cut = tcp_sk(sk)->snd_cwnd;
	return sl_dctcp_cwnd(ca->cwnd_before_cut, ca->alpha_q20);
}

SEC("struct_ops/dctcp_set_state")
void BPF_PROG(dctcp_set_state, struct sock *sk, __u8 new_state)
{
	const struct dctcp *ca = cc_state(sk);

	if (new_state == TCP_CA_Recovery || new_state == TCP_CA_Loss)
		cc_loss(sk, ca->cwnd_before_cut);
}

SEC("struct_ops/dctcp_cwnd_event")
void BPF_PROG(dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct dctcp *ca = cc_state(sk);

	cc_receiver_event(sk, &ca->receiver, event);
}

SEC("struct_ops/dctcp_cong_avoid")
void BPF_PROG(dctcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops/dctcp_undo_cwnd")
__u32 BPF_PROG(dctcp_undo_cwnd, struct sock *sk)
{
	const struct dctcp *ca = cc_state(sk);
	__u32 cwnd = tcp_sk(sk)->snd_cwnd;

	return cwnd > ca->cwnd_before_cut ? cwnd : ca->cwnd_before_cut;
}

SEC(".struct_ops")
struct tcp_congestion_ops sluice_dctcp = {
	.init = (void *)dctcp_init,
	.in_ack_event = (void *)dctcp_in_ack_event,
	.ssthresh = (void *)dctcp_ssthresh,
	.set_state = (void *)dctcp_set_state,
	.cwnd_event = (void *)dctcp_cwnd_event,
	.cong_avoid = (void *)dctcp_cong_avoid,
	.undo_cwnd = (void *)dctcp_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN,
	.name = "sluice_dctcp",
};

char LICENSE[] SEC("license") = "GPL";
