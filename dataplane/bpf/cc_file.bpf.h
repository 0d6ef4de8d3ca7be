/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * A congestion control from a file (laws/hooks.h), which is included before this header. A control with SL_ON_ACK
 * owns its window: the kernel's window and pacing rate are set to its answers with each ACK.
 */
#ifndef SLUICE_CC_FILE_BPF_H
#define SLUICE_CC_FILE_BPF_H

#include "../laws/hooks.h"

#ifndef SL_ECHO
#define SL_ECHO SL_ECHO_EXACT
#endif

#define CC SL_CONTROL
#define CC_EXACT_ECHO (SL_ECHO == SL_ECHO_EXACT)
#define CC_READS_MARKS (SL_ECHO != SL_ECHO_NONE)
#define CC_BEGIN begin_hooks

struct sock;
struct cc_sender;

static void begin_hooks(struct sock *sk);

#ifdef SL_ON_ACK
#define CC_GROWS 0
#define CC_MOVE move_by_hooks
static void move_by_hooks(struct sock *sk, struct cc_sender *s);
#else
#define CC_GROWS 1
#endif

#include "cc_ops.bpf.h"

_Static_assert(SL_STATE_BYTES <= SL_STATE_MAX, "SL_STATE has at most 512 bytes");
_Static_assert(sizeof(struct sl_parameters) <= sizeof(((struct host_settings *)0)->parameters),
	       "there are at most 16 parameters");

/* What the control keeps for a connection. */
struct own_state {
	__u64 cwnd_q16; /* the last answers */
	__u64 pacing_bytes_per_s;
	__u32 delivered_ce; /* running count at the last ACK */
	__u32 round_end;    /* snd_nxt at the last ACK that began a round */
	__u8 state[SL_STATE_BYTES + 1] __attribute__((aligned(8)));
};

#if defined(SL_HAS_STATE) || defined(SL_ON_ACK)
#define KEEPS_STATE 1

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct own_state);
} sluice_own SEC(".maps");

/* NULL if there is no memory for it. */
static __always_inline struct own_state *own_of(struct sock *sk, __u64 flags)
{
	return bpf_sk_storage_get(&sluice_own, sk, 0, flags);
}
#else
#define KEEPS_STATE 0

static __always_inline struct own_state *own_of(struct sock *sk, __u64 flags)
{
	return NULL;
}
#endif

#ifdef SL_PARAMETERS
#define SL_DEFAULT(name, value, help) .name = value,

static __always_inline int is_named(const char name[SLUICE_CONTROL_BYTES])
{
	const char ours[SLUICE_CONTROL_BYTES] = CC_TEXT(CC_NAME);

	for (int i = 0; i < SLUICE_CONTROL_BYTES; i++)
		if (name[i] != ours[i])
			return 0;
	return 1;
}

/* What the host's policy says of this control, or the file's defaults. */
static __always_inline struct sl_parameters parameters_of(const struct sock *sk)
{
	const struct host_settings *host = host_of(sk);
	struct sl_parameters values = {SL_PARAMETERS(SL_DEFAULT)};

	if (host && is_named(host->parameters_of))
		__builtin_memcpy(&values, host->parameters, sizeof(values));
	return values;
}
#else
static __always_inline struct sl_parameters parameters_of(const struct sock *sk)
{
	return (struct sl_parameters){};
}
#endif

static __always_inline struct sl_sender sender_of(struct sock *sk, struct own_state *own,
						  const struct sl_parameters *parameters)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct sl_sender s = {
		.now_ns = bpf_ktime_get_ns(),
		.smoothed_rtt_ns = (__u64)(tp->srtt_us >> SRTT_SHIFT) * 1000,
		.least_rtt_ns = tp->srtt_us ? (__u64)tp->rtt_min.s[0].v * 1000 : 0,
		.mss_bytes = tp->mss_cache,
		.cwnd_q16 = own ? own->cwnd_q16 : (__u64)tp->snd_cwnd * SL_Q16_ONE,
		.pacing_bytes_per_s = own ? own->pacing_bytes_per_s : 0,
		.own = own ? (void *)own->state : NULL,
		.parameters = parameters,
	};

	return s;
}

static __always_inline void keep_answers(struct own_state *own, const struct sl_sender *s)
{
	if (!own)
		return;
	own->cwnd_q16 = s->cwnd_q16 > SL_LEAST_CWND_Q16 ? s->cwnd_q16 : SL_LEAST_CWND_Q16;
	own->pacing_bytes_per_s = s->pacing_bytes_per_s;
}

static __always_inline void begin_hooks(struct sock *sk)
{
	struct own_state *own = own_of(sk, BPF_SK_STORAGE_GET_F_CREATE);
	struct sl_parameters parameters = parameters_of(sk);
	struct sl_sender sl_seen;

	if (KEEPS_STATE && !own)
		return;
	if (own) {
		own->cwnd_q16 = (__u64)tcp_sk(sk)->snd_cwnd * SL_Q16_ONE;
		own->delivered_ce = tcp_sk(sk)->delivered_ce;
		own->round_end = tcp_sk(sk)->snd_nxt;
	}
	sl_seen = sender_of(sk, own, &parameters);
#ifdef SL_ON_START
	SL_ON_START(&sl_seen);
#endif
	keep_answers(own, &sl_seen);
}

static __always_inline void law(struct sock *sk, struct socket_flow *flow, struct sl_window_record *w)
{
	struct sl_parameters parameters = parameters_of(sk);
	struct own_state *own = own_of(sk, 0);
	struct sl_sender sl_seen;

	w->penalty_q20 = w->alpha_q20;
	if (KEEPS_STATE && !own)
		return;
	sl_seen = sender_of(sk, own, &parameters);
	sl_seen.window = w;
#ifdef SL_ON_WINDOW
	SL_ON_WINDOW(&sl_seen);
#endif
	keep_answers(own, &sl_seen);
}

#ifdef SL_ON_ACK
static __always_inline void call_hooks(struct sl_sender *sl_seen, __u8 before, __u8 state,
				       const struct sl_ack *sl_newest)
{
	if (state == TCP_CA_Loss && before != TCP_CA_Loss) {
#ifdef SL_ON_TIMEOUT
		SL_ON_TIMEOUT(sl_seen);
#else
		sl_leave_one_packet(sl_seen);
#endif
	} else if (state == TCP_CA_Recovery && before < TCP_CA_Recovery) {
#ifdef SL_ON_LOSS
		SL_ON_LOSS(sl_seen);
#else
		sl_halve(sl_seen);
#endif
	}
	if (sl_newest->acked)
		SL_ON_ACK(sl_seen, sl_newest);
}

/* The kernel paces only a connection that once had a rate. */
static __always_inline void set_pacing(struct sock *sk, const struct sl_sender *s)
{
	__u64 gap_ns = sl_gap_ns(s), rate_bytes_per_s;

	cc_update_pacing(sk);
	if (!gap_ns)
		return;
	rate_bytes_per_s = (__u64)s->mss_bytes * 1000000000 / gap_ns;
	if (rate_bytes_per_s < sk->sk_max_pacing_rate)
		sk->sk_pacing_rate = rate_bytes_per_s ?: 1;
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

static __always_inline void move_by_hooks(struct sock *sk, struct cc_sender *before)
{
	struct own_state *own = own_of(sk, 0);
	__u8 state = BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state);
	struct sl_parameters parameters = parameters_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct sl_sender sl_seen;

	if (own) {
		struct sl_ack ack = {
			.rtt_ns = (__u64)tp->rack.rtt_us * 1000,
			.acked = tp->delivered - before->delivered,
			.marked = CC_READS_MARKS ? tp->delivered_ce - own->delivered_ce : 0,
			.limited = BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited),
			.round = (__s32)(tp->snd_una - own->round_end) > 0,
		};

		sl_seen = sender_of(sk, own, &parameters);
		call_hooks(&sl_seen, before->state, state, &ack);
		keep_answers(own, &sl_seen);
		own->delivered_ce = tp->delivered_ce;
		if (ack.round)
			own->round_end = tp->snd_nxt;
		tp->snd_cwnd = own->cwnd_q16 >= SL_Q16_ONE ? own->cwnd_q16 / SL_Q16_ONE : 1;
		if (tp->snd_cwnd > tp->snd_cwnd_clamp)
			tp->snd_cwnd = tp->snd_cwnd_clamp;
		set_pacing(sk, &sl_seen);
	}
	before->cwnd = tp->snd_cwnd;
	before->delivered = tp->delivered;
	before->snd_una = tp->snd_una;
	before->state = state;
	before->cut_pending = 0;
}
#endif

#endif
