/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Swift: the window holds the delay of each packet at a target.
 *
 *   target             t = base + max(0, min(range, a / sqrt(cwnd) + b))       flow scaling; ns
 *                      a = range / (1 / sqrt(least) - 1 / sqrt(most)),  b = -a / sqrt(most)
 *   delay below t      cwnd = cwnd + ai / cwnd   for each acknowledged packet;  cwnd + ai below one packet
 *   otherwise          cwnd = cwnd * max(1 - beta * (delay - t) / delay, 1 - most_cut),  once a round trip
 *   loss               cwnd = cwnd * (1 - most_cut),                                     once a round trip
 *   timeout            the same; after five in a row the least window
 *   below one packet   a packet every rtt / cwnd
 *
 * Source: Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter", SIGCOMM 2020,
 * sections 3.1 to 3.5, algorithms 1 and 2. The delay is the whole round trip: there is no delay in hosts here, so the
 * window for the endpoint, which the paper keeps beside this one, would never be the smaller. The base target includes
 * what the paper adds for each hop.
 *
 * Roots are rounded down in Q8, and 1 / sqrt(cwnd) in Q16: for windows up to 1,000 packets the target is within 1 % of
 * the range.
 */
#define SL_CONTROL swift
#define SL_ECHO SL_ECHO_NONE
#define SL_PARAMETERS(P)                                                                                             \
	P(base_target_ns, 25000, "Target delay of a large window.")                                                  \
	P(range_ns, 100000, "What flow scaling adds at most.")                                                       \
	P(least_scaled_milli, 100, "Window with the largest target, in thousandths of a packet.")                    \
	P(most_scaled_milli, 100000, "Window from which on nothing is added, in thousandths of a packet.")           \
	P(additive_milli, 1000, "Packets that a round trip adds, in thousandths.")                                   \
	P(beta_milli, 800, "Part of the relative excess delay that a cut takes, in thousandths.")                    \
	P(most_cut_milli, 500, "Largest part of the window that a cut takes, in thousandths.")                       \
	P(least_cwnd_milli, 10, "Least window, in thousandths of a packet.")
#define SL_STATE struct swift_state
#include "hooks.h"

#define SWIFT_TIMEOUTS 5 /* in a row, before the window is the least */

struct swift_state {
	sl_u64 cut_ns; /* when the window was cut last */
	sl_u64 timeouts;
};

/* 1 / sqrt(cwnd), Q16. Four steps of Newton's method from a power of two are exact for 64 bits. */
static sl_u64 swift_inverse_root_q16(sl_u64 cwnd_q16)
{
	sl_u64 rest = cwnd_q16, root_q8;
	sl_u32 bits = 0;

	for (sl_u32 step = 32; step; step /= 2) {
		if (rest >> step) {
			rest >>= step;
			bits += step;
		}
	}
	root_q8 = 1ULL << (bits / 2 + 1);
	for (int i = 0; i < 4; i++)
		root_q8 = (root_q8 + cwnd_q16 / root_q8) / 2 | 1;
	return (1ULL << 24) / root_q8;
}

static sl_u64 swift_target_ns(const struct sl_sender *s)
{
	const struct sl_parameters *p = s->parameters;
	sl_u64 inverse = swift_inverse_root_q16(s->cwnd_q16);
	sl_u64 most = swift_inverse_root_q16(SL_Q16_ONE * p->least_scaled_milli / 1000);
	sl_u64 least = swift_inverse_root_q16(SL_Q16_ONE * p->most_scaled_milli / 1000);

	if (inverse <= least)
		return p->base_target_ns;
	if (inverse >= most)
		return p->base_target_ns + (sl_u64)p->range_ns;
	return p->base_target_ns + p->range_ns * (inverse - least) / (most - least);
}

static void swift_cut(struct sl_sender *s, sl_u64 milli)
{
	const struct sl_parameters *p = s->parameters;
	sl_u64 least_q16 = SL_Q16_ONE * p->least_cwnd_milli / 1000;

	if (s->now_ns - s->own->cut_ns < s->smoothed_rtt_ns)
		return;
	if (milli > p->most_cut_milli)
		milli = p->most_cut_milli;
	s->cwnd_q16 -= s->cwnd_q16 * milli / 1000;
	if (s->cwnd_q16 < least_q16)
		s->cwnd_q16 = least_q16;
	s->own->cut_ns = s->now_ns;
}

static void swift_ack(struct sl_sender *s, const struct sl_ack *ack)
{
	const struct sl_parameters *p = s->parameters;
	sl_u64 target_ns = swift_target_ns(s), added_q16 = SL_Q16_ONE * p->additive_milli / 1000 * ack->acked;

	s->own->timeouts = 0;
	if (ack->rtt_ns >= target_ns)
		swift_cut(s, p->beta_milli * (ack->rtt_ns - target_ns) / (ack->rtt_ns | 1));
	else if (s->cwnd_q16 >= SL_Q16_ONE)
		s->cwnd_q16 += (added_q16 << 16) / s->cwnd_q16;
	else
		s->cwnd_q16 += added_q16;
}
#define SL_ON_ACK swift_ack

static void swift_loss(struct sl_sender *s)
{
	s->own->timeouts = 0;
	swift_cut(s, s->parameters->most_cut_milli);
}
#define SL_ON_LOSS swift_loss

static void swift_timeout(struct sl_sender *s)
{
	if (++s->own->timeouts >= SWIFT_TIMEOUTS)
		s->cwnd_q16 = SL_Q16_ONE * s->parameters->least_cwnd_milli / 1000;
	else
		swift_cut(s, s->parameters->most_cut_milli);
}
#define SL_ON_TIMEOUT swift_timeout
