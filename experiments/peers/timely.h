/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * TIMELY: the rate follows the gradient of the round trip.
 *
 *   once a round       diff = (1 - g) * diff + g * (rtt - rtt before),  gradient = diff / least rtt
 *   rtt below low      rate = rate + step
 *   rtt above high     rate = rate * (1 - beta * (1 - high / rtt))
 *   gradient <= 0      rate = rate + step, five times as much after five such rounds
 *   otherwise          rate = rate * (1 - beta * gradient), at least half
 *   a timeout          rate = rate / 2
 *
 * Source: Mittal et al., "TIMELY: RTT-based Congestion Control for the Datacenter", SIGCOMM 2015, sections 4.2 and 4.3, algorithm
 * 1, with its parameters. The paper's completion event is that of a segment of 16 to 64 KB; here it is a round trip. A window of
 * two round trips at the highest round trip keeps an unanswered sender from going on.
 */
#define SL_CONTROL timely
#define SL_ECHO SL_ECHO_NONE
#define SL_PARAMETERS(P)                                                                                             \
	P(low_ns, 50000, "Round trip below which the rate always grows.")                                            \
	P(high_ns, 500000, "Round trip above which the rate always falls.")                                          \
	P(least_rtt_ns, 20000, "Round trip of an empty network, by which the gradient is measured.")                 \
	P(step_kbit_s, 10000, "What a round adds to the rate.")                                                      \
	P(beta_milli, 800, "Factor of a cut, in thousandths.")                                                       \
	P(gain_q10, 128, "Weight of the newest difference, in parts of 1,024.")                                      \
	P(start_milli, 500,                                                                                          \
	  "First rate, in thousandths of the host's link; the paper divides it by the host's flows.")                \
	P(least_kbit_s, 1000, "Least rate.")
#define SL_STATE struct timely_state
#include "hooks.h"

#define TIMELY_ROUNDS 5	   /* without a growing round trip, before the step grows */
#define TIMELY_KBIT 125ULL /* bytes */

struct timely_state {
	sl_s64 diff_ns;
	sl_u64 rtt_ns; /* of the round before; 0: none */
	sl_u64 rounds; /* in a row in which the round trip did not grow */
};

static void timely_set(struct sl_sender *s, sl_u64 bytes_per_s)
{
	const struct sl_parameters *p = s->parameters;

	if (bytes_per_s < p->least_kbit_s * TIMELY_KBIT)
		bytes_per_s = p->least_kbit_s * TIMELY_KBIT;
	if (s->link_bytes_per_s && bytes_per_s > s->link_bytes_per_s)
		bytes_per_s = s->link_bytes_per_s;
	s->pacing_bytes_per_s = bytes_per_s;
	s->cwnd_q16 = (bytes_per_s * 2 * p->high_ns / 1000000000 << 16) / s->mss_bytes + 2 * SL_Q16_ONE;
}

static void timely_start(struct sl_sender *s)
{
	const struct sl_parameters *p = s->parameters;

	timely_set(s, s->link_bytes_per_s ? s->link_bytes_per_s * p->start_milli / 1000
					  : 100 * p->step_kbit_s * TIMELY_KBIT);
}
#define SL_ON_START timely_start

static void timely_ack(struct sl_sender *s, const struct sl_ack *ack)
{
	const struct sl_parameters *p = s->parameters;
	struct timely_state *own = s->own;
	sl_u64 rate = s->pacing_bytes_per_s, step = p->step_kbit_s * TIMELY_KBIT, gradient_milli;

	if (!ack->round)
		return;
	if (own->rtt_ns)
		own->diff_ns += ((sl_s64)(ack->rtt_ns - own->rtt_ns) - own->diff_ns) * (sl_s64)p->gain_q10 >> 10;
	own->rtt_ns = ack->rtt_ns;
	own->rounds = own->diff_ns <= 0 ? own->rounds + 1 : 0;
	if (ack->rtt_ns < p->low_ns) {
		rate += step;
	} else if (ack->rtt_ns > p->high_ns) {
		rate -= rate * p->beta_milli / 1000 * (ack->rtt_ns - p->high_ns) / ack->rtt_ns;
	} else if (own->diff_ns <= 0) {
		rate += own->rounds >= TIMELY_ROUNDS ? 5 * step : step;
	} else {
		gradient_milli = (sl_u64)own->diff_ns * p->beta_milli / (p->least_rtt_ns | 1);
		rate -= rate * (gradient_milli < 500 ? gradient_milli : 500) / 1000;
	}
	timely_set(s, rate);
}
#define SL_ON_ACK timely_ack

static void timely_keep(struct sl_sender *s)
{
	(void)s;
}
#define SL_ON_LOSS timely_keep

static void timely_timeout(struct sl_sender *s)
{
	timely_set(s, s->pacing_bytes_per_s / 2);
}
#define SL_ON_TIMEOUT timely_timeout
