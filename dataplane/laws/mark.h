/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The virtual queue of a port: ECN marking and the buffer bound, over all queues of the port.
 *
 *   backlog(t) = max(0, backlog(t') - rate * (t - t'))         between packets
 *   a packet of `len` bytes arrives:
 *     drop   when backlog + len > buffer                       (the backlog with the packet)
 *     mark   by the backlog that it finds, without itself:
 *              K        backlog > K
 *              ramp     never up to min, always above max, between them with probability
 *                       (backlog - min) / (max - min): random / 2^32 < this, the backlog in whole bytes
 *            or by the phantom queue that it finds:
 *              phantom  phantom > its own threshold
 *     backlog += len                                           unless it was dropped
 *
 *   phantom(t) = max(0, phantom(t') + sent - phantom_rate * (t - t')), at most buffer
 *     sent = min(backlog(t'), rate * (t - t'))                 what has left the port in that time
 *
 * Source: marking on arrival by the instantaneous queue: DCTCP (Alizadeh et al., SIGCOMM 2010, section 3.1); one
 * threshold for the whole port whatever the queue: PIAS (Bai et al., NSDI 2015, section 4.3); the ramp: the RED
 * variant of DATCP (Zhang et al., section 3.2.1 and table 1: max_p = 1, queue weight 1), each packet by itself,
 * without RED's count since the last mark. The queue is virtual: a model of a link that always sends at `rate_bps`
 * when it has something to send. An emulated one does so in the long run only, its timers being late; where the real
 * backlog is known, sl_vq_at_least keeps the virtual one from falling behind it.
 *
 * The phantom queue: HULL (Alizadeh et al., NSDI 2012, section 3.1): a counter behind the port, fed by what leaves
 * it at the link's rate and drained at a share gamma of that rate, so that it tells of a link used beyond gamma
 * before any queue stands. It holds no packet and drops none. Here a packet meets it at its arrival, not at its
 * departure: both are the same while the port is empty, which is what the phantom queue is for. The paper sets no
 * bound; ours is the buffer, so that the end of an overload by traffic that does not react is soon forgotten.
 *
 * The levels are kept in units of 1 byte / (8 * 10^9): rate_bps of them leave per nanosecond, exactly, so nothing is
 * rounded and nothing drifts. 64 bits hold 2.3 * 10^9 bytes; buffers are clamped to 2 * 10^9. Rates up to 2^64 - 1.
 */
#ifndef SLUICE_LAWS_MARK_H
#define SLUICE_LAWS_MARK_H

#include "types.h"

struct sl_vq_settings {
	sl_u64 rate_bps;	   /* drain rate; 0: the port is not modelled, everything passes unmarked */
	sl_u64 mark_bytes;	   /* K, or min of the ramp; 0: do not mark by the backlog */
	sl_u64 buffer_bytes;	   /* bound of the backlog; 0: no bound below SL_VQ_MAX_BYTES */
	sl_u64 mark_max_bytes;	   /* max of the ramp; not above mark_bytes: no ramp, mark_bytes is K */
	sl_u64 phantom_rate_bps;   /* gamma * rate_bps; 0: no phantom queue */
	sl_u64 phantom_mark_bytes; /* threshold of the phantom queue */
};

/* All zero: empty. */
struct sl_vq_state {
	sl_u64 level;	/* backlog in units of 1 byte / SL_VQ_UNITS_PER_BYTE */
	sl_u64 last_ns; /* time up to which the levels were drained */
	sl_u64 phantom; /* phantom queue, in the same units */
};

enum sl_vq_verdict { SL_VQ_PASS = 0, SL_VQ_MARK = 1, SL_VQ_DROP = 2 };

#define SL_VQ_UNITS_PER_BYTE 8000000000ULL
#define SL_VQ_MAX_BYTES 2000000000ULL

SL_LAW sl_u64 sl_vq_backlog_bytes(const struct sl_vq_state *q)
{
	return q->level / SL_VQ_UNITS_PER_BYTE;
}

SL_LAW sl_u64 sl_vq_phantom_bytes(const struct sl_vq_state *q)
{
	return q->phantom / SL_VQ_UNITS_PER_BYTE;
}

/* What is left of a level after a time of draining. */
SL_LAW sl_u64 sl_vq_drained(sl_u64 level, sl_u64 rate_bps, sl_u64 elapsed_ns)
{
	if (elapsed_ns > level / rate_bps) /* else the product is at most level: it cannot overflow */
		return 0;
	return level - elapsed_ns * rate_bps;
}

/* The bound of both levels, in their units. */
SL_LAW sl_u64 sl_vq_bound(const struct sl_vq_settings *set)
{
	sl_u64 bytes = set->buffer_bytes;

	if (!bytes || bytes > SL_VQ_MAX_BYTES)
		bytes = SL_VQ_MAX_BYTES;
	return bytes * SL_VQ_UNITS_PER_BYTE;
}

/* phantom + sent - phantom_rate * elapsed, not below 0, where at least what was sent could be drained in the time. */
SL_LAW sl_u64 sl_vq_phantom_shrunk(sl_u64 phantom, sl_u64 sent, sl_u64 rate_bps, sl_u64 elapsed_ns)
{
	sl_u64 sent_ns = sent / rate_bps, first;

	if (elapsed_ns == sent_ns) /* to the nanosecond what was sent */
		return phantom;
	first = rate_bps - sent % rate_bps; /* of the nanosecond in which the rest of what was sent is drained */
	return phantom <= first ? 0 : sl_vq_drained(phantom - first, rate_bps, elapsed_ns - sent_ns - 1);
}

/* The phantom queue after a time in which `sent` units left the port, at the link's rate. */
SL_LAW sl_u64 sl_vq_phantom(sl_u64 phantom, sl_u64 sent, const struct sl_vq_settings *set, sl_u64 elapsed_ns)
{
	sl_u64 bound = sl_vq_bound(set), grown = sl_vq_drained(sent, set->phantom_rate_bps, elapsed_ns);

	if (grown > ~0ULL - phantom)
		return bound;
	if (grown)
		phantom += grown;
	else
		phantom = sl_vq_phantom_shrunk(phantom, sent, set->phantom_rate_bps, elapsed_ns);
	return phantom < bound ? phantom : bound;
}

/* Drain up to `now_ns`. A clock read earlier on another CPU drains nothing and does not turn the time back. */
SL_LAW void sl_vq_drain(struct sl_vq_state *q, const struct sl_vq_settings *set, sl_u64 now_ns)
{
	sl_u64 elapsed_ns, before = q->level;

	if (now_ns <= q->last_ns)
		return;
	elapsed_ns = now_ns - q->last_ns;
	q->last_ns = now_ns;
	q->level = sl_vq_drained(before, set->rate_bps, elapsed_ns);
	q->phantom = set->phantom_rate_bps ? sl_vq_phantom(q->phantom, before - q->level, set, elapsed_ns) : 0;
}

/*
 * The real backlog is this: the virtual one is no less, and what has not left has not fed the phantom queue. Returns by
 * how many units the virtual one was behind: what the port ought to have sent, and did not.
 */
SL_LAW sl_u64 sl_vq_at_least(struct sl_vq_state *q, const struct sl_vq_settings *set, sl_u32 real_bytes,
			     sl_u64 now_ns)
{
	sl_u64 real = (real_bytes < SL_VQ_MAX_BYTES ? real_bytes : SL_VQ_MAX_BYTES) * SL_VQ_UNITS_PER_BYTE, behind;

	if (!set->rate_bps)
		return 0;
	sl_vq_drain(q, set, now_ns);
	if (q->level >= real)
		return 0;
	behind = real - q->level;
	q->phantom = q->phantom > behind ? q->phantom - behind : 0;
	q->level = real;
	return behind;
}

/* By the backlog that the packet finds, in units: K or the ramp. */
SL_LAW int sl_vq_marks_backlog(const struct sl_vq_settings *set, sl_u64 found, sl_u32 random)
{
	sl_u64 min = set->mark_bytes, max = set->mark_max_bytes;

	if (!min || min > SL_VQ_MAX_BYTES || found <= min * SL_VQ_UNITS_PER_BYTE)
		return 0;
	if (max > SL_VQ_MAX_BYTES)
		max = SL_VQ_MAX_BYTES;
	if (max <= min)
		return 1;
	/* Both sides are below 2^63; from max on the right one is the larger whatever the random number. */
	return random * (max - min) < (found / SL_VQ_UNITS_PER_BYTE - min) << 32;
}

SL_LAW int sl_vq_marks_phantom(const struct sl_vq_settings *set, sl_u64 phantom)
{
	return set->phantom_rate_bps && set->phantom_mark_bytes <= SL_VQ_MAX_BYTES &&
	       phantom > set->phantom_mark_bytes * SL_VQ_UNITS_PER_BYTE;
}

/*
 * What happens to a packet of `len_bytes` (as the qdisc counts it) that arrives at `now_ns`. `random`: uniform over its
 * 32 bits, new for each packet; only the ramp asks for it.
 */
SL_LAW enum sl_vq_verdict sl_vq_arrive(struct sl_vq_state *q, const struct sl_vq_settings *set, sl_u32 len_bytes,
				       sl_u64 now_ns, sl_u32 random)
{
	sl_u64 bound = sl_vq_bound(set), found, len = (sl_u64)len_bytes * SL_VQ_UNITS_PER_BYTE;

	if (!set->rate_bps)
		return SL_VQ_PASS;
	sl_vq_drain(q, set, now_ns);
	found = q->level;
	if (len_bytes > SL_VQ_MAX_BYTES || len > bound || found > bound - len)
		return SL_VQ_DROP;
	q->level = found + len;
	if (sl_vq_marks_backlog(set, found, random) || sl_vq_marks_phantom(set, q->phantom))
		return SL_VQ_MARK;
	return SL_VQ_PASS;
}

#endif
