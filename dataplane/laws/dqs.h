/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Dynamic queue sharing: each active flow of a priority gets one of a fixed number of sub-queues.
 *
 *   a packet of `flow` arrives:
 *     the flow's own sub-queue                                  if it has one
 *     the shared one, hash(flow) mod queues                     while guests wait there (maybe its own packets)
 *     a free one, which becomes the flow's                      if there is one
 *     the shared one, as a guest of the flow that owns it       otherwise
 *   free: never assigned, or empty for longer than `release_ns`
 *   a packet leaves: from the next sub-queue with packets, in turn, one packet each
 *
 * Source: FISH (Zhang, Hu), flow queues and algorithm 1, inner loop; after DQS (its reference 11).
 * The second line is ours. Without it, a guest could get its own sub-queue and overtake its
 * packets that still wait in the shared one. With it, a flow's packets leave in arrival order.
 *
 * The law keeps the owner of each sub-queue and the number of packets that wait. The caller holds
 * the packets, bounds the buffer, and decides which priority is served. It has one struct sl_dqs
 * per priority. sl_dqs_dequeue decides which sub-queue has its turn. If another scheduler decides,
 * for example a kernel's qdisc, the caller uses sl_dqs_left instead. Loops end after
 * SL_DQS_MAX_QUEUES steps.
 *
 * Ranges: 1 to SL_DQS_MAX_QUEUES sub-queues (clamped); up to 2^32 - 1 packets in each, which the
 * caller's buffer must ensure; any flow number and any time. Flows with the same number are one
 * flow, so the number must be exact or a 64-bit hash.
 */
#ifndef SLUICE_LAWS_DQS_H
#define SLUICE_LAWS_DQS_H

#include "types.h"

enum sl_dqs_size { SL_DQS_MAX_QUEUES = 32 };

#define SL_DQS_NONE 0xFFFFFFFFU

struct sl_dqs_settings {
	sl_u64 release_ns; /* an empty sub-queue stays assigned to its flow for this long */
	sl_u32 queues;	   /* must not change while a struct sl_dqs is in use */
};

struct sl_dqs_queue {
	sl_u64 flow;	   /* the owner, if assigned */
	sl_u64 emptied_ns; /* when its last packet left, if none waits */
	sl_u32 waiting;	   /* packets */
	sl_u32 until_own;  /* packets that must leave before no guest's packet waits */
	sl_u32 assigned;
};

/* All zero: empty, every sub-queue free. */
struct sl_dqs {
	struct sl_dqs_queue queue[SL_DQS_MAX_QUEUES];
	sl_u32 turn; /* the sub-queue whose turn it is */
};

SL_LAW sl_u32 sl_dqs_queues(const struct sl_dqs_settings *set)
{
	if (!set->queues)
		return 1;
	return set->queues < SL_DQS_MAX_QUEUES ? set->queues : SL_DQS_MAX_QUEUES;
}

/* A time that was read earlier on another CPU releases nothing. */
SL_LAW int sl_dqs_is_free(const struct sl_dqs_queue *q, const struct sl_dqs_settings *set, sl_u64 now_ns)
{
	if (!q->assigned)
		return 1;
	return !q->waiting && now_ns > q->emptied_ns && now_ns - q->emptied_ns > set->release_ns;
}

/* The shared sub-queue, by the upper bits of a multiplicative hash (Knuth, vol. 3, 6.4). */
SL_LAW sl_u32 sl_dqs_shared(sl_u64 flow, const struct sl_dqs_settings *set)
{
	sl_u64 upper = flow * 0x9E3779B97F4A7C15ULL >> 32;

	return sl_index((sl_u32)(upper * sl_dqs_queues(set) >> 32), SL_DQS_MAX_QUEUES);
}

/*
 * The flow's own sub-queue. If it has none, SL_DQS_NONE, and `free` is the first free sub-queue,
 * or also SL_DQS_NONE.
 */
SL_LAW sl_u32 sl_dqs_own(const struct sl_dqs *d, const struct sl_dqs_settings *set, sl_u64 flow, sl_u64 now_ns,
			 sl_u32 *free)
{
	sl_u32 queues = sl_dqs_queues(set), i;

	*free = SL_DQS_NONE;
	for (i = 0; i < SL_DQS_MAX_QUEUES; i++) {
		if (i >= queues)
			break;
		if (d->queue[i].assigned && d->queue[i].flow == flow)
			return i;
		if (*free == SL_DQS_NONE && sl_dqs_is_free(&d->queue[i], set, now_ns))
			*free = i;
	}
	return SL_DQS_NONE;
}

/* Return the sub-queue into which the caller puts an arriving packet of `flow`. */
SL_LAW sl_u32 sl_dqs_enqueue(struct sl_dqs *d, const struct sl_dqs_settings *set, sl_u64 flow, sl_u64 now_ns)
{
	sl_u32 free, at = sl_dqs_own(d, set, flow, now_ns, &free), guest = 0;

	if (at == SL_DQS_NONE) {
		at = sl_dqs_shared(flow, set);
		guest = d->queue[at].until_own || free == SL_DQS_NONE;
		if (!guest)
			at = free;
	}
	if (at >= SL_DQS_MAX_QUEUES) /* never, but BPF's verifier needs the check */
		return SL_DQS_NONE;
	d->queue[at].waiting++;
	if (guest) {
		d->queue[at].until_own = d->queue[at].waiting;
	} else {
		d->queue[at].flow = flow;
		d->queue[at].assigned = 1;
	}
	return at;
}

/* `packets` have left sub-queue `at`, the last one at `now_ns`. More than waited counts as all. */
SL_LAW void sl_dqs_left(struct sl_dqs *d, sl_u32 at, sl_u32 packets, sl_u64 now_ns)
{
	struct sl_dqs_queue *q;

	if (at >= SL_DQS_MAX_QUEUES)
		return;
	q = &d->queue[at];
	if (!q->waiting || !packets)
		return;
	q->waiting = q->waiting > packets ? q->waiting - packets : 0;
	q->until_own = q->until_own > packets ? q->until_own - packets : 0;
	if (!q->waiting)
		q->emptied_ns = now_ns;
}

/* Return the sub-queue from which the caller takes the next packet; SL_DQS_NONE if none waits. */
SL_LAW sl_u32 sl_dqs_dequeue(struct sl_dqs *d, const struct sl_dqs_settings *set, sl_u64 now_ns)
{
	sl_u32 queues = sl_dqs_queues(set), at = d->turn, i;

	for (i = 0; i < SL_DQS_MAX_QUEUES; i++, at++) {
		if (at >= queues)
			at = 0;
		if (at >= SL_DQS_MAX_QUEUES || !d->queue[at].waiting)
			continue;
		d->turn = at + 1;
		sl_dqs_left(d, at, 1, now_ns);
		return at;
	}
	return SL_DQS_NONE;
}

/* Number of sub-queues that are not free now. */
SL_LAW sl_u32 sl_dqs_active(const struct sl_dqs *d, const struct sl_dqs_settings *set, sl_u64 now_ns)
{
	sl_u32 queues = sl_dqs_queues(set), active = 0, i;

	for (i = 0; i < SL_DQS_MAX_QUEUES; i++)
		active += i < queues && !sl_dqs_is_free(&d->queue[i], set, now_ns);
	return active;
}

#endif
