/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * DCTCP's sender: it estimates the marked share of the window and cuts the window in proportion.
 *
 *   once a window:     F     = marked / acked                          (packets)
 *                      alpha = (1 - g) * alpha + g * F,  g = 1/16, alpha = 1 at the start
 *   on the first mark  cwnd  = cwnd * (1 - alpha / 2), at least 2      (packets; once a window)
 *   on loss            cwnd  = cwnd / 2, at least 2                    (once a window; the larger of the two cuts)
 *
 * Source: Alizadeh et al., SIGCOMM 2010, equations (1) and (2); RFC 8257, sections 3.3-3.5 and
 * 4.2.
 *
 * alpha is Q20. Each update is less than one unit off and keeps 15/16 of the earlier error. So
 * alpha always stays within 16 units (2^-16) of the real number. The cut is rounded to the nearest
 * packet: for this alpha, it is within half a packet of the real cut.
 *
 * Any 32-bit input: products are taken in 64 bits.
 */
#ifndef SLUICE_LAWS_DCTCP_H
#define SLUICE_LAWS_DCTCP_H

#include "types.h"

#define SL_DCTCP_ALPHA_ONE (1U << 20)
#define SL_DCTCP_G_SHIFT 4
#define SL_MIN_CWND 2U

/* Counts at the start of a window of data, for every control that reacts once a window. */
struct sl_window {
	sl_u32 end_seq; /* the window ends when this byte is acknowledged */
	sl_u32 acked;	/* running count of delivered packets when the window began */
	sl_u32 marked;	/* running count of packets delivered with CE when the window began */
};

/* Packets of the window that has just ended. */
struct sl_window_sum {
	sl_u32 acked;
	sl_u32 marked;
};

SL_LAW void sl_window_begin(struct sl_window *w, sl_u32 snd_nxt, sl_u32 acked, sl_u32 marked)
{
	w->end_seq = snd_nxt;
	w->acked = acked;
	w->marked = marked;
}

/*
 * 1 if this ACK has ended the window: `sum` then holds the window's packets, and the next window
 * begins. `acked` and `marked` are running counts and may wrap. If nothing new was delivered,
 * `sum` is 0, 0.
 */
SL_LAW int sl_window_ended(struct sl_window *w, sl_u32 snd_una, sl_u32 snd_nxt, sl_u32 acked, sl_u32 marked,
			   struct sl_window_sum *sum)
{
	if ((sl_s32)(snd_una - w->end_seq) < 0)
		return 0;
	sum->acked = acked - w->acked;
	sum->marked = marked - w->marked;
	sl_window_begin(w, snd_nxt, acked, marked);
	return 1;
}

/*
 * alpha (Q20) after a window with `marked` of `acked` packets marked; unchanged if none was acked.
 */
SL_LAW sl_u32 sl_dctcp_alpha(sl_u32 alpha_q20, sl_u32 acked, sl_u32 marked)
{
	sl_u64 fraction_q20;

	if (!acked)
		return alpha_q20;
	if (marked > acked)
		marked = acked;
	fraction_q20 = (sl_u64)marked * SL_DCTCP_ALPHA_ONE / acked;
	return (sl_u32)(alpha_q20 - (alpha_q20 >> SL_DCTCP_G_SHIFT) + (fraction_q20 >> SL_DCTCP_G_SHIFT));
}

/* Congestion window in packets after the cut for a window with marks. */
SL_LAW sl_u32 sl_dctcp_cwnd(sl_u32 cwnd, sl_u32 alpha_q20)
{
	sl_u64 cut = ((sl_u64)cwnd * alpha_q20 + SL_DCTCP_ALPHA_ONE) / (2ULL * SL_DCTCP_ALPHA_ONE);
	sl_u32 left = cut < cwnd ? cwnd - (sl_u32)cut : 0;

	return left > SL_MIN_CWND ? left : SL_MIN_CWND;
}

/* Congestion window in packets after a loss. `cwnd`: before any cut in this window of data. */
SL_LAW sl_u32 sl_loss_cwnd(sl_u32 cwnd)
{
	return cwnd / 2 > SL_MIN_CWND ? cwnd / 2 : SL_MIN_CWND;
}

#endif
