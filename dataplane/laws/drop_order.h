/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What a port does by rank: the order in which it drops, and the backlog by which it marks.
 *
 *   rank      the packet's queue, 0 to 7; 8 for background traffic, whatever its queue
 *   ahead(r)  backlog of the ranks 0 to r; ahead(8) is the backlog of the whole port
 *   room(r)   the most that may wait at rank r and below it:
 *                 room(0) = buffer
 *                 room(r) = buffer - buffer / 4 - r * step            for r = 1 to 7
 *                 room(8) = buffer / 8
 *             step  buffer / 32; twice that if packets are marked by their own queue, because a
 *                   queue that never shrinks for others would leave too little to those above it
 *
 *   a packet of rank r and length len arrives:
 *     drop   if ahead(8) + len > buffer                       there is no room at all
 *            or ahead(8) - ahead(r - 1) + len > room(r)       its rank and those below have theirs
 *            (the second only if urgent packets go first)
 *     mark   as mark.h does, by this backlog:
 *              port    ahead(8); if urgent packets go first, ahead(7) for all but background traffic
 *              queue   ahead(r) - ahead(r - 1): what waits in its own queue
 *              ahead   ahead(r): what is served before it
 *            From the last queue on, K can be another one.
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
 * Sources: partial buffer sharing (Kröner, Hébuterne, Boyer, Gravey, IEEE JSAC 9(3), 1991) with
 * thresholds of this project. Marks by the port and by the queue: Bai et al., NSDI 2015, 4.3, whose
 * PIAS uses the port's. Units: bytes, or any other unit that is the same for all arguments.
 * Range: levels and buffer below 2^63.
 */
#ifndef SLUICE_LAWS_DROP_ORDER_H
#define SLUICE_LAWS_DROP_ORDER_H

#include "mark.h"
#include "types.h"

enum sl_rank { SL_QUEUE_RANKS = 8, SL_RANK_BACKGROUND = 8 };

enum sl_mark_by { SL_MARK_BY_PORT = 0, SL_MARK_BY_QUEUE = 1, SL_MARK_BY_AHEAD = 2 };

struct sl_by_rank {
	sl_u64 last_mark_bytes; /* K from the last queue on; 0: the same as in the others */
	sl_u32 last_queue;
	sl_u32 mark_by;	     /* enum sl_mark_by */
	sl_u32 urgent_first; /* 0: drop only what does not fit */
	sl_u32 unused;
};

/* Does a port with these settings do anything by rank? */
SL_LAW int sl_ranks_matter(const struct sl_by_rank *by)
{
	return by->urgent_first || by->mark_by || by->last_mark_bytes;
}

/* ahead(0) to ahead(7); ahead(8) is the level of the port's virtual queue. All zero: empty. */
struct sl_ahead {
	sl_u64 of[SL_QUEUE_RANKS];
};

/* room(rank) of a buffer of this size. Ranks above SL_RANK_BACKGROUND count as that one. */
SL_LAW sl_u64 sl_drop_order_room(sl_u64 buffer, sl_u32 mark_by, sl_u32 rank)
{
	sl_u64 step = buffer / 32;

	if (mark_by == SL_MARK_BY_QUEUE)
		step *= 2;
	if (!rank)
		return buffer;
	if (rank >= SL_RANK_BACKGROUND)
		return buffer / 8;
	return buffer - buffer / 4 - step * rank;
}

/* Is a packet of this rank admitted? `total`: ahead(8). `above`: ahead(rank - 1), 0 for rank 0. */
SL_LAW int sl_drop_order_admits(sl_u64 total, sl_u64 above, sl_u64 len, sl_u64 buffer, sl_u32 mark_by, sl_u32 rank)
{
	sl_u64 room = sl_drop_order_room(buffer, mark_by, rank), below = total > above ? total - above : 0;

	return len <= buffer && total <= buffer - len && len <= room && below <= room - len;
}

/*
 * Do X for each of the ranks 0 to 7. Written out, because the verifier of older kernels refuses
 * the loop that a compiler makes of this.
 */
#define SL_EACH_RANK(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

/*
 * All bits set if a < b, otherwise 0; both below 2^63. It has no branch: the verifier of Linux 6.1
 * follows each way through eight branches, and gives up. The empty assembler statement keeps the
 * compiler from making one.
 */
SL_LAW sl_u64 sl_if_less(sl_u64 a, sl_u64 b)
{
	sl_u64 difference = a - b;

	__asm__("" : "+r"(difference));
	return (sl_u64)((sl_s64)difference >> 63);
}

/* All bits set if two ranks are the same, otherwise 0. */
SL_LAW sl_u64 sl_if_same(sl_u32 a, sl_u32 b)
{
	return sl_if_less(a ^ b, 1);
}

/* ahead(rank); `total`, the port's backlog, for background traffic. */
SL_LAW sl_u64 sl_ahead_up_to(const struct sl_ahead *a, sl_u64 total, sl_u32 rank)
{
	sl_u64 found = total, here, less;

#define SL_CHOOSE(r)                                                                                                 \
	here = sl_if_same(rank, r);                                                                                  \
	found = (found & ~here) | (a->of[r] & here);
	SL_EACH_RANK(SL_CHOOSE)
#undef SL_CHOOSE
	less = sl_if_less(found, total);
	return (found & less) | (total & ~less);
}

/* ahead(rank - 1): what is more urgent than a packet of this rank. */
SL_LAW sl_u64 sl_ahead_above(const struct sl_ahead *a, sl_u64 total, sl_u32 rank)
{
	return sl_ahead_up_to(a, total, rank - 1) & ~sl_if_same(rank, 0);
}

/* The port has sent so much. */
SL_LAW void sl_ahead_sent(struct sl_ahead *a, sl_u64 sent)
{
#define SL_SHRINK(r) a->of[r] = (a->of[r] - sent) & ~sl_if_less(a->of[r], sent);
	SL_EACH_RANK(SL_SHRINK)
#undef SL_SHRINK
}

/* A packet of this rank has been admitted. */
SL_LAW void sl_ahead_admitted(struct sl_ahead *a, sl_u32 rank, sl_u64 len)
{
#define SL_GROW(r) a->of[r] += len & ~sl_if_less(r, rank);
	SL_EACH_RANK(SL_GROW)
#undef SL_GROW
}

/* The backlog that marks a packet of this rank. */
SL_LAW sl_u64 sl_backlog_that_marks(const struct sl_ahead *a, const struct sl_by_rank *by, sl_u64 total, sl_u32 rank)
{
	sl_u64 up_to = sl_ahead_up_to(a, total, rank), above = sl_ahead_above(a, total, rank);

	if (by->mark_by == SL_MARK_BY_QUEUE)
		return up_to > above ? up_to - above : 0;
	if (by->mark_by == SL_MARK_BY_AHEAD)
		return up_to;
	return by->urgent_first && rank < SL_RANK_BACKGROUND ? sl_ahead_up_to(a, total, SL_QUEUE_RANKS - 1) : total;
}

/* K of this rank. */
SL_LAW sl_u64 sl_mark_bytes_of_rank(sl_u64 mark_bytes, const struct sl_by_rank *by, sl_u32 rank)
{
	return by->last_mark_bytes && rank >= by->last_queue ? by->last_mark_bytes : mark_bytes;
}

/*
 * As sl_vq_arrive (mark.h), by rank. `drained`: what the virtual queue has lost since the last
 * packet. Call sl_vq_drain or sl_vq_at_least before.
 */
SL_LAW enum sl_vq_verdict sl_ranked_arrive(struct sl_vq_state *q, struct sl_ahead *a,
					   const struct sl_vq_settings *set, const struct sl_by_rank *by, sl_u32 rank,
					   sl_u32 len_bytes, sl_u64 drained, sl_u32 random)
{
	sl_u64 len = (sl_u64)len_bytes * SL_VQ_UNITS_PER_BYTE, found, above;
	struct sl_vq_settings own = *set;

	if (!set->rate_bps)
		return SL_VQ_PASS;
	own.mark_bytes = sl_mark_bytes_of_rank(set->mark_bytes, by, rank);
	sl_ahead_sent(a, drained);
	above = by->urgent_first ? sl_ahead_above(a, q->level, rank) : q->level;
	if (len_bytes > SL_VQ_MAX_BYTES ||
	    !sl_drop_order_admits(q->level, above, len, sl_vq_bound(set), by->mark_by, by->urgent_first ? rank : 0))
		return SL_VQ_DROP;
	found = sl_backlog_that_marks(a, by, q->level, rank);
	q->level += len;
	sl_ahead_admitted(a, rank, len);
	if (sl_vq_marks_backlog(&own, found, random) || sl_vq_marks_phantom(set, q->phantom))
		return SL_VQ_MARK;
	return SL_VQ_PASS;
}

#endif
