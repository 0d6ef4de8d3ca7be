/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * DCQCN: the rate falls with the marks that a receiver reports, and recovers by a timer and a byte counter.
 *
 *   a report (CNP)     target = rate,  rate = rate * (1 - alpha / 2),  alpha = (1 - g) * alpha + g,  both counts = 0
 *   none for K         alpha = (1 - g) * alpha
 *   each T,            rate = (rate + target) / 2, and one more on the count of times, or of bytes; before that
 *   each B bytes         both counts < F    nothing                   fast recovery
 *                        both counts > F    target = target + hai     hyper increase
 *                        otherwise          target = target + ai      additive increase
 *
 * Source: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 3, equations 1 to 4, with
 * its parameters; hai is ten times ai, as at HPCC's authors. A flow starts at the rate of its link, without a window, and
 * the target never exceeds that rate.
 *
 * The receiver sends a CNP for a marked packet unless it has sent one within 50 us. Here it echoes each mark, and the
 * sender takes those that come within 50 us as one CNP. Timers go by the times of ACKs: what was due since the ACK before
 * happens first. With `by_clock`, alpha and cuts go by timers that run from the first mark on, as in HPCC's authors' model
 * of a card: each K, alpha rises if marks came since, or falls; each `report_us`, the rate is cut if marks came since; the
 * first marks set alpha to 1.
 *
 * Alpha is Q20.
 */
#define SL_CONTROL dcqcn
#define SL_ECHO SL_ECHO_EXACT
#define SL_RAMP 1
#define SL_PARAMETERS(P)                                                                                             \
	P(report_us, 50, "Least time between two reports of marks.")                                                 \
	P(alpha_us, 55, "K: time after which alpha falls.")                                                          \
	P(gain_q10, 4, "g, in parts of 1,024.")                                                                      \
	P(increase_us, 55, "T: time between two increases.")                                                         \
	P(increase_bytes, 10000000, "B: bytes between two increases; 0: only the time counts.")                      \
	P(fast_steps, 5, "F: increases without a higher target.")                                                    \
	P(additive_kbit_s, 40000, "What an additive increase adds to the target.")                                   \
	P(hyper_kbit_s, 400000, "What a hyper increase adds.")                                                       \
	P(least_kbit_s, 10000, "The least rate.")                                                                    \
	P(by_clock, 0, "1: alpha and cuts go by timers that run from the first mark on.")
#define SL_STATE struct dcqcn_state
#include "hooks.h"

#define DCQCN_ONE_Q20 (1ULL << 20)
#define DCQCN_KBIT 125
#define DCQCN_STEPS 512 /* of timers at one ACK; what is due beyond them happens at the next one */

struct dcqcn_state {
	sl_u64 rate, target; /* bytes/s */
	sl_u64 alpha_q20;
	sl_u64 alpha_due_ns, increase_due_ns;
	sl_u64 cut_due_ns;	/* by clock */
	sl_u64 report_ns;	/* otherwise: when marks count again */
	sl_u64 bytes;		/* since the byte counter expired */
	sl_u32 times, rounds;	/* how often the timer and the byte counter have expired since the last cut */
	sl_u32 alpha_is_marked; /* by clock: marks came since alpha changed */
	sl_u32 rate_is_marked;	/* since the rate was cut, or was not */
};

static void dcqcn_increase(struct sl_sender *s, sl_u32 *count)
{
	const struct sl_parameters *p = s->parameters;
	struct dcqcn_state *own = s->own;
	sl_u32 rounds = p->increase_bytes ? own->rounds : own->times;

	if (own->times > p->fast_steps && rounds > p->fast_steps)
		own->target += (sl_u64)p->hyper_kbit_s * DCQCN_KBIT;
	else if (own->times >= p->fast_steps || rounds >= p->fast_steps)
		own->target += (sl_u64)p->additive_kbit_s * DCQCN_KBIT;
	if (s->link_bytes_per_s && own->target > s->link_bytes_per_s)
		own->target = s->link_bytes_per_s;
	own->rate = (own->rate + own->target) / 2;
	++*count;
}

static void dcqcn_cut(struct sl_sender *s, sl_u64 at_ns)
{
	const struct sl_parameters *p = s->parameters;
	struct dcqcn_state *own = s->own;

	if (!p->by_clock || own->times)
		own->target = own->rate;
	own->rate -= own->rate * own->alpha_q20 >> 21;
	if (own->rate < (sl_u64)p->least_kbit_s * DCQCN_KBIT)
		own->rate = (sl_u64)p->least_kbit_s * DCQCN_KBIT;
	own->increase_due_ns = at_ns + p->increase_us * 1000ULL;
	own->bytes = own->times = own->rounds = 0;
}

static void dcqcn_move_alpha(struct sl_sender *s, sl_u32 marked)
{
	sl_u64 gain_q10 = s->parameters->gain_q10;

	s->own->alpha_q20 = (s->own->alpha_q20 * (1024 - gain_q10) + (marked ? DCQCN_ONE_Q20 * gain_q10 : 0)) >> 10;
}

/* What is due first, if that is by now. Returns 0 if nothing is. */
static int dcqcn_step(struct sl_sender *s)
{
	const struct sl_parameters *p = s->parameters;
	struct dcqcn_state *own = s->own;
	sl_u64 alpha_ns = own->alpha_due_ns, cut_ns = own->cut_due_ns, increase_ns = own->increase_due_ns;

	if (alpha_ns <= cut_ns && alpha_ns <= increase_ns && alpha_ns <= s->now_ns) {
		dcqcn_move_alpha(s, own->alpha_is_marked);
		own->alpha_is_marked = 0;
		own->alpha_due_ns += p->alpha_us * 1000ULL;
	} else if (cut_ns <= increase_ns && cut_ns <= s->now_ns) {
		own->cut_due_ns += p->report_us * 1000ULL;
		if (own->rate_is_marked)
			dcqcn_cut(s, cut_ns);
		own->rate_is_marked = 0;
	} else if (increase_ns <= s->now_ns) {
		own->increase_due_ns += p->increase_us * 1000ULL;
		dcqcn_increase(s, &own->times);
	} else {
		return 0;
	}
	return 1;
}

static void dcqcn_marked(struct sl_sender *s)
{
	const struct sl_parameters *p = s->parameters;
	struct dcqcn_state *own = s->own;

	if (p->by_clock) {
		own->rate_is_marked = 1;
		own->alpha_is_marked = own->cut_due_ns != ~0ULL;
		if (own->alpha_is_marked)
			return;
		own->alpha_due_ns = s->now_ns + p->alpha_us * 1000ULL;
		own->cut_due_ns = s->now_ns + p->report_us * 1000ULL;
	} else if (s->now_ns >= own->report_ns) {
		dcqcn_cut(s, s->now_ns);
		dcqcn_move_alpha(s, 1);
		own->alpha_due_ns = s->now_ns + p->alpha_us * 1000ULL;
		own->report_ns = s->now_ns + p->report_us * 1000ULL;
	}
}

static void dcqcn_start(struct sl_sender *s)
{
	struct dcqcn_state *own = s->own;

	own->rate = s->link_bytes_per_s ? s->link_bytes_per_s : 1000ULL * s->parameters->additive_kbit_s * DCQCN_KBIT;
	own->target = own->rate;
	own->alpha_q20 = DCQCN_ONE_Q20;
	own->alpha_due_ns = own->cut_due_ns = ~0ULL;
	own->increase_due_ns = s->now_ns + s->parameters->increase_us * 1000ULL;
	s->cwnd_q16 = ~0ULL;
	s->pacing_bytes_per_s = own->rate;
}
#define SL_ON_START dcqcn_start

static void dcqcn_ack(struct sl_sender *s, const struct sl_ack *ack)
{
	const struct sl_parameters *p = s->parameters;
	struct dcqcn_state *own = s->own;

	for (int i = 0; i < DCQCN_STEPS; i++)
		if (!dcqcn_step(s))
			break;
	own->bytes += (sl_u64)ack->acked * s->mss_bytes;
	if (p->increase_bytes && own->bytes >= p->increase_bytes) {
		own->bytes -= p->increase_bytes;
		dcqcn_increase(s, &own->rounds);
	}
	if (ack->marked)
		dcqcn_marked(s);
	s->cwnd_q16 = ~0ULL;
	s->pacing_bytes_per_s = own->rate;
}
#define SL_ON_ACK dcqcn_ack

/* Its fabric loses nothing but by accident, so neither a loss nor a timeout says anything of the load. */
static void dcqcn_ignore(struct sl_sender *s)
{
}
#define SL_ON_LOSS dcqcn_ignore
#define SL_ON_TIMEOUT dcqcn_ignore
