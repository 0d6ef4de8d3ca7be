/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * L2DCT: DCTCP whose steps depend on what the flow has sent.
 *
 *   weight        w = w_most up to 200 KB, w_least from 1 MB on, linear between
 *   a round       cwnd = cwnd + w / w_most                   (packets; slow start as ever)
 *   a mark        cwnd = cwnd * (1 - alpha^w / 2)            (once a window; alpha as in dctcp.h)
 *   a loss        cwnd = cwnd / 2                            (once a window)
 *
 * Source: Munir et al., "Minimizing Flow Completion Times in Data Centers", INFOCOM 2013, section III. The weights and sizes are
 * those of PIAS's evaluation. A window has at least one packet.
 */
#define SL_CONTROL l2dct
#define SL_ECHO SL_ECHO_EXACT
#define SL_PARAMETERS(P)                                                                                             \
	P(most_weight_milli, 2500, "Weight of a flow that has sent little, in thousandths.")                         \
	P(least_weight_milli, 125, "Weight of a flow that has sent much, in thousandths.")                           \
	P(least_size_bytes, 204800, "What a flow has sent when its weight begins to fall.")                          \
	P(most_size_bytes, 1048576, "What a flow has sent when its weight is the least.")
#define SL_STATE struct l2dct_state
#include "hooks.h"

#include "dctcp.h"
#include "power.h"

struct l2dct_state {
	sl_u64 sent_packets;
	sl_u64 threshold_q16; /* of slow start; 0: none yet */
	sl_u32 alpha_q20;
	sl_u32 acked, marked; /* in this window */
	sl_u32 was_cut;	      /* in this window */
};

static sl_u64 l2dct_weight_milli(const struct sl_parameters *p, sl_u64 sent_bytes)
{
	if (sent_bytes <= p->least_size_bytes)
		return p->most_weight_milli;
	if (sent_bytes >= p->most_size_bytes)
		return p->least_weight_milli;
	return p->most_weight_milli - (p->most_weight_milli - p->least_weight_milli) *
					      (sent_bytes - p->least_size_bytes) /
					      (p->most_size_bytes - p->least_size_bytes);
}

static void l2dct_start(struct sl_sender *s)
{
	s->own->alpha_q20 = SL_DCTCP_ALPHA_ONE;
}
#define SL_ON_START l2dct_start

/* `part_q20`: what the window loses. */
static void l2dct_cut(struct sl_sender *s, sl_u64 part_q20)
{
	if (s->own->was_cut)
		return;
	s->cwnd_q16 -= s->cwnd_q16 * part_q20 >> 20;
	if (s->cwnd_q16 < SL_Q16_ONE)
		s->cwnd_q16 = SL_Q16_ONE;
	s->own->threshold_q16 = s->cwnd_q16;
	s->own->was_cut = 1;
}

static void l2dct_ack(struct sl_sender *s, const struct sl_ack *ack)
{
	struct l2dct_state *own = s->own;
	sl_u64 weight_milli = l2dct_weight_milli(s->parameters, own->sent_packets * s->mss_bytes);

	own->sent_packets += ack->acked;
	own->acked += ack->acked;
	own->marked += ack->marked;
	if (ack->round) {
		own->alpha_q20 = sl_dctcp_alpha(own->alpha_q20, own->acked, own->marked);
		own->acked = own->marked = own->was_cut = 0;
	}
	if (ack->marked)
		l2dct_cut(s, sl_power_q20(own->alpha_q20, (sl_u32)(weight_milli * 65536 / 1000)) / 2);
	else if (!ack->limited)
		return;
	else if (!own->threshold_q16 || s->cwnd_q16 < own->threshold_q16)
		s->cwnd_q16 += SL_Q16_ONE * ack->acked;
	else
		s->cwnd_q16 += ((SL_Q16_ONE * ack->acked * weight_milli / s->parameters->most_weight_milli) << 16) /
			       s->cwnd_q16;
}
#define SL_ON_ACK l2dct_ack

static void l2dct_loss(struct sl_sender *s)
{
	l2dct_cut(s, 1 << 19);
}
#define SL_ON_LOSS l2dct_loss

static void l2dct_timeout(struct sl_sender *s)
{
	s->own->threshold_q16 = s->cwnd_q16 / 2 > 2 * SL_Q16_ONE ? s->cwnd_q16 / 2 : 2 * SL_Q16_ONE;
	s->cwnd_q16 = SL_Q16_ONE;
}
#define SL_ON_TIMEOUT l2dct_timeout
