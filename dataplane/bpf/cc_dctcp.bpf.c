// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * sluice_dctcp: DCTCP as a kernel congestion control (RFC 8257). The law is laws/dctcp.h; the receiver's side and the
 * course of a reduction are cc.bpf.h.
 *
 *   ACK                 count acknowledged and marked packets; at the end of a window update alpha
 *   ECE, once a window  the kernel enters CWR and asks `ssthresh`: cwnd (1 - alpha / 2)
 *   loss                half the window before the cut
 *   growth              slow start and congestion avoidance of Reno
 */
#include "cc.bpf.h"

struct dctcp {
	struct cc_sender sender;
	struct cc_receiver receiver;
	__u32 alpha_q20;
};

_Static_assert(sizeof(struct dctcp) <= sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv), "fits the socket");

static __always_inline void begin(struct sock *sk, struct dctcp *ca)
{
	cc_begin(sk, &ca->sender);
	ca->receiver.prior_rcv_nxt = tcp_sk(sk)->rcv_nxt;
	ca->receiver.ce = 0;
	ca->alpha_q20 = SL_DCTCP_ALPHA_ONE;
}

SEC("struct_ops/dctcp_init")
void BPF_PROG(dctcp_init, struct sock *sk)
{
	if (!cc_fell_back(sk))
		begin(sk, cc_state(sk));
}

SEC("struct_ops/dctcp_ssthresh")
__u32 BPF_PROG(dctcp_ssthresh, struct sock *sk)
{
	struct dctcp *ca = cc_state(sk);

	return cc_cut(sk, &ca->sender, ca->alpha_q20);
}

SEC("struct_ops/dctcp_undo_cwnd")
__u32 BPF_PROG(dctcp_undo_cwnd, struct sock *sk)
{
	struct dctcp *ca = cc_state(sk);

	return cc_undo(sk, &ca->sender);
}

/* Takes only the socket: the further arguments have changed with kernel versions. */
SEC("struct_ops/dctcp_cong_control")
void BPF_PROG(dctcp_cong_control, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = cc_state(sk);
	struct sl_window_sum sum;

	if (!ca->sender.begun)
		begin(sk, ca);
	if (sl_window_ended(&ca->sender.window, tp->snd_una, tp->snd_nxt, tp->delivered, tp->delivered_ce, &sum))
		ca->alpha_q20 = sl_dctcp_alpha(ca->alpha_q20, sum.acked, sum.marked);
	cc_control(sk, &ca->sender, ca->alpha_q20);
}

SEC("struct_ops/dctcp_cwnd_event")
void BPF_PROG(dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct dctcp *ca = cc_state(sk);

	cc_receiver_event(sk, &ca->receiver, event);
	if (event == CA_EVENT_TX_START)
		cc_restart(sk, &ca->sender);
}

SEC(".struct_ops")
struct tcp_congestion_ops sluice_dctcp = {
	.init = (void *)dctcp_init,
	.ssthresh = (void *)dctcp_ssthresh,
	.undo_cwnd = (void *)dctcp_undo_cwnd,
	.cong_control = (void *)dctcp_cong_control,
	.cwnd_event = (void *)dctcp_cwnd_event,
	.flags = TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN,
	.name = "sluice_dctcp",
};

char LICENSE[] SEC("license") = "GPL";
