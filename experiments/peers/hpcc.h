/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * HPCC: the window follows how full the fullest link of the path is, by what each hop says of itself.
 *
 *   of each link   u' = min(qlen, qlen before) / (B * T) + txRate / B,   txRate = bytes sent / time, between two ACKs
 *   of the path    u = max(u'),  U = (1 - tau / T) * U + tau / T * u,   tau = that link's time between the ACKs, at most T
 *   U >= eta, or   W = Wc / (U / eta) + W_AI
 *   after maxStage increases in a row
 *   otherwise      W = Wc + W_AI
 *   once a round   Wc = W
 *   rate           R = W / T
 *
 * Source: Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019, section 3.3 and algorithm 1. A flow starts
 * with W = B * T of its host's link, which W never exceeds. W counts packets here.
 *
 * U is Q20. T must be a little more than the longest round trip without queues.
 */
#define SL_CONTROL hpcc
#define SL_ECHO SL_ECHO_NONE
#define SL_TELEMETRY 1
#define SL_PARAMETERS(P)                                                                                             \
	P(base_rtt_ns, 13000, "T: a little more than the longest round trip without queues.")                        \
	P(eta_milli, 950, "Utilisation to aim at, in thousandths.")                                                  \
	P(most_stages, 5, "Increases in a row before the window follows the utilisation again.")                     \
	P(additive_milli, 80, "W_AI: packets that a round adds, in thousandths.")
#define SL_STATE struct hpcc_state
#include "hooks.h"

#define HPCC_ONE_Q20 (1ULL << 20)

struct hpcc_state {
	struct sl_hop last[SL_HOPS_MAX]; /* of the ACK before */
	sl_u64 utilisation_q20;		 /* U */
	sl_u64 reference_q16;		 /* Wc */
	sl_u32 hops;
	sl_u32 stage;
};

static sl_u64 hpcc_least(sl_u64 a, sl_u64 b)
{
	return a < b ? a : b;
}

/* Bytes that a link carries in so many nanoseconds; 1 and more. */
static sl_u64 hpcc_carries(sl_u64 bytes_per_s, sl_u64 time_ns)
{
	return bytes_per_s / 1000 * time_ns / 1000000 | 1;
}

/* Algorithm 1, MeasureInflight. */
static void hpcc_measure(struct hpcc_state *own, const struct sl_ack *ack, sl_u64 base_ns)
{
	sl_u64 most_q20 = 0, tau_ns = 0;

	for (sl_u32 i = 0; i < SL_HOPS_MAX; i++) {
		const struct sl_hop *hop = ack->hop + i, *before = own->last + i;
		sl_u64 took_ns, here_q20;

		if (i >= ack->hops)
			break;
		took_ns = hop->at_ns - before->at_ns;
		here_q20 = hpcc_least(hop->queue_bytes, before->queue_bytes) * HPCC_ONE_Q20 /
				   hpcc_carries(hop->bytes_per_s, base_ns) +
			   (hop->sent_bytes - before->sent_bytes) * HPCC_ONE_Q20 /
				   hpcc_carries(hop->bytes_per_s, took_ns);
		if (here_q20 > most_q20) {
			most_q20 = here_q20;
			tau_ns = hpcc_least(took_ns, base_ns);
		}
	}
	own->utilisation_q20 = (own->utilisation_q20 * (base_ns - tau_ns) + most_q20 * tau_ns) / base_ns;
}

/* Algorithm 1, ComputeWind. */
static void hpcc_move(struct sl_sender *s, int round)
{
	const struct sl_parameters *p = s->parameters;
	struct hpcc_state *own = s->own;
	sl_u64 eta_q20 = HPCC_ONE_Q20 * p->eta_milli / 1000, added_q16 = SL_Q16_ONE * p->additive_milli / 1000;
	int follows = own->utilisation_q20 >= eta_q20 || own->stage >= p->most_stages;

	s->cwnd_q16 = added_q16 +
		      (follows ? own->reference_q16 * eta_q20 / (own->utilisation_q20 | 1) : own->reference_q16);
	if (!round)
		return;
	own->stage = follows ? 0 : own->stage + 1;
	own->reference_q16 = s->cwnd_q16;
}

static sl_u64 hpcc_most_q16(const struct sl_sender *s)
{
	return hpcc_carries(s->link_bytes_per_s, s->parameters->base_rtt_ns) * SL_Q16_ONE / (s->mss_bytes | 1);
}

static void hpcc_pace(struct sl_sender *s)
{
	s->pacing_bytes_per_s =
		s->cwnd_q16 * s->mss_bytes / (s->parameters->base_rtt_ns | 1) * 1000000000 / SL_Q16_ONE;
}

static void hpcc_start(struct sl_sender *s)
{
	s->cwnd_q16 = s->own->reference_q16 = hpcc_most_q16(s);
	s->own->utilisation_q20 = HPCC_ONE_Q20;
	hpcc_pace(s);
}
#define SL_ON_START hpcc_start

static void hpcc_ack(struct sl_sender *s, const struct sl_ack *ack)
{
	struct hpcc_state *own = s->own;

	if (ack->hops && ack->hops == own->hops) {
		hpcc_measure(own, ack, s->parameters->base_rtt_ns | 1);
		hpcc_move(s, ack->round);
	}
	s->cwnd_q16 = hpcc_least(s->cwnd_q16, hpcc_most_q16(s));
	own->reference_q16 = hpcc_least(own->reference_q16, hpcc_most_q16(s));
	hpcc_pace(s);
	own->hops = ack->hops;
	for (sl_u32 i = 0; i < SL_HOPS_MAX; i++)
		if (i < ack->hops)
			own->last[i] = ack->hop[i];
}
#define SL_ON_ACK hpcc_ack

/* Its fabric loses nothing but by accident, so neither a loss nor a timeout says anything of the load. */
static void hpcc_ignore(struct sl_sender *s)
{
}
#define SL_ON_LOSS hpcc_ignore
#define SL_ON_TIMEOUT hpcc_ignore
