/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The order in which a port drops: what is least urgent goes first.
 *
 *   rank      the packet's queue, 0 to 7; 8 for background traffic, whatever its queue
 *   ahead(r)  backlog of the ranks 0 to r; ahead(8) is the backlog of the whole port
 *   room(r)   the most that may wait at rank r and below it:
 *                 room(0) = buffer
 *                 room(r) = buffer - buffer / 4 - r * buffer / 32     for r = 1 to 7
 *                 room(8) = buffer / 8
 *
 *   a packet of rank r and length len arrives:
 *     drop   if ahead(8) + len > buffer                       there is no room at all
 *            or ahead(8) - ahead(r - 1) + len > room(r)       its rank and those below have theirs
 *     mark   by the backlog of the port, as mark.h does, but without what waits as background:
 *            ahead(7); background traffic itself by ahead(8)
 *
 * So less urgent packets leave room for more urgent ones, and for what has arrived of these the
 * room counts as used. Nothing has to be pushed out of a queue, which a program in front of the
 * qdisc could not do. A packet of rank 0 is dropped only if the buffer is full.
 *
 * Under strict priorities, the ranks 0 to r together are a queue of their own, which drains at the
 * rate of the link: sl_ahead_sent takes what the port has sent from each ahead(r). No rank looks at
 * another one, so there is no sum over ranks. With guaranteed shares for lower queues, ahead(r) is
 * too small by what these have sent meanwhile. ahead(8) is exact in any case.
 *
 * Source: partial buffer sharing (Kröner, Hébuterne, Boyer, Gravey, IEEE JSAC 9(3), 1991). The
 * thresholds are this project's. Units: bytes, or any other unit that is the same for all arguments.
 * Range: levels and buffer below 2^63.
 */
#ifndef SLUICE_LAWS_DROP_ORDER_H
#define SLUICE_LAWS_DROP_ORDER_H

#include "mark.h"
#include "types.h"

enum sl_rank { SL_QUEUE_RANKS = 8, SL_RANK_BACKGROUND = 8 };

/* ahead(0) to ahead(7); ahead(8) is the level of the port's virtual queue. All zero: empty. */
struct sl_ahead {
	sl_u64 of[SL_QUEUE_RANKS];
};

/* room(rank) of a buffer of this size. Ranks above SL_RANK_BACKGROUND count as that one. */
SL_LAW sl_u64 sl_drop_order_room(sl_u64 buffer, sl_u32 rank)
{
	if (!rank)
		return buffer;
	if (rank >= SL_RANK_BACKGROUND)
		return buffer / 8;
	return buffer - buffer / 4 - buffer / 32 * rank;
}

/* Is a packet of this rank admitted? `total`: ahead(8). `above`: ahead(rank - 1), 0 for rank 0. */
SL_LAW int sl_drop_order_admits(sl_u64 total, sl_u64 above, sl_u64 len, sl_u64 buffer, sl_u32 rank)
{
	sl_u64 room = sl_drop_order_room(buffer, rank), below = total > above ? total - above : 0;

	return len <= buffer && total <= buffer - len && len <= room && below <= room - len;
}

/* The backlog that marks a packet of this rank; `background`: what waits at SL_RANK_BACKGROUND. */
SL_LAW sl_u64 sl_drop_order_marking(sl_u64 total, sl_u64 background, sl_u32 rank)
{
	if (rank >= SL_RANK_BACKGROUND)
		return total;
	return total > background ? total - background : 0;
}

/*
 * Do X for each of the ranks 0 to 7. Written out, because the verifier of older kernels refuses
 * the loop that a compiler makes of this.
 */
#define SL_EACH_RANK(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

/* ahead(rank); `total`, the port's backlog, for background traffic. */
SL_LAW sl_u64 sl_ahead_up_to(const struct sl_ahead *a, sl_u64 total, sl_u32 rank)
{
	sl_u64 found = total;

#define SL_CHOOSE(r) found = rank == (r) ? a->of[r] : found;
	SL_EACH_RANK(SL_CHOOSE)
#undef SL_CHOOSE
	return found < total ? found : total;
}

/* ahead(rank - 1): what is more urgent than a packet of this rank. */
SL_LAW sl_u64 sl_ahead_above(const struct sl_ahead *a, sl_u64 total, sl_u32 rank)
{
	return rank ? sl_ahead_up_to(a, total, rank - 1) : 0;
}

/* The port has sent so much. */
SL_LAW void sl_ahead_sent(struct sl_ahead *a, sl_u64 sent)
{
#define SL_SHRINK(r) a->of[r] = a->of[r] > sent ? a->of[r] - sent : 0;
	SL_EACH_RANK(SL_SHRINK)
#undef SL_SHRINK
}

/* A packet of this rank has been admitted. */
SL_LAW void sl_ahead_admitted(struct sl_ahead *a, sl_u32 rank, sl_u64 len)
{
#define SL_GROW(r) a->of[r] += rank <= (r) ? len : 0;
	SL_EACH_RANK(SL_GROW)
#undef SL_GROW
}

/*
 * As sl_vq_arrive (mark.h), in this order. `drained`: what the virtual queue has lost since the
 * last packet. Call sl_vq_drain or sl_vq_at_least before.
 */
SL_LAW enum sl_vq_verdict sl_drop_order_arrive(struct sl_vq_state *q, struct sl_ahead *a,
					       const struct sl_vq_settings *set, sl_u32 rank, sl_u32 len_bytes,
					       sl_u64 drained, sl_u32 random)
{
	sl_u64 len = (sl_u64)len_bytes * SL_VQ_UNITS_PER_BYTE, found, above;

	if (!set->rate_bps)
		return SL_VQ_PASS;
	sl_ahead_sent(a, drained);
	above = sl_ahead_above(a, q->level, rank);
	if (len_bytes > SL_VQ_MAX_BYTES || !sl_drop_order_admits(q->level, above, len, sl_vq_bound(set), rank))
		return SL_VQ_DROP;
	found = rank < SL_RANK_BACKGROUND ? sl_ahead_up_to(a, q->level, SL_QUEUE_RANKS - 1) : q->level;
	q->level += len;
	sl_ahead_admitted(a, rank, len);
	if (sl_vq_marks_backlog(set, found, random) || sl_vq_marks_phantom(set, q->phantom))
		return SL_VQ_MARK;
	return SL_VQ_PASS;
}

#endif
