/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The virtual queue of a port: ECN marking and the buffer bound, over all queues of the port.
 *
 *   backlog(t) = max(0, backlog(t') - rate * (t - t'))         between packets
 *   a packet of `len` bytes arrives:
 *     drop   if backlog + len > buffer                         (the backlog with the packet)
 *     mark   by the backlog that it finds, without itself:
 *              K        backlog > K
 *              ramp     never up to min, always above max, between them with probability
 *                       most * (backlog - min) / (max - min): random / 2^32 < this, in whole bytes
 *            or by the phantom queue that it finds:
 *              phantom  phantom > its own threshold
 *     backlog += len                                           unless the packet was dropped
 *
 *   phantom(t) = max(0, phantom(t') + sent - phantom_rate * (t - t')), at most buffer
 *     sent = min(backlog(t'), rate * (t - t'))                 what has left the port in that time
 *
 * Sources, with sections:
 *
 * - marks on arrival by the instantaneous queue: DCTCP (Alizadeh et al., SIGCOMM 2010, 3.1)
 * - one threshold for the whole port, for all queues: PIAS (Bai et al., NSDI 2015, 4.3)
 * - ramp: the RED variants of DATCP (Zhang et al., 3.2.1 and table 1: max_p = 1, queue weight 1) and DCQCN
 *   (Zhu et al., SIGCOMM 2015, 3.1: max_p = 0.01).
 *   It draws for each packet by itself, without RED's count since the last mark.
 * - phantom queue: HULL (Alizadeh et al., NSDI 2012, 3.1)
 *
 * The queue is virtual: a model of a link that always sends at `rate_bps` while it has packets. An
 * emulated link does so only in the long run, because its timers are late. If the real backlog is
 * known, sl_vq_at_least keeps the virtual one from falling behind it.
 *
 * The phantom queue is a counter behind the port. Bytes that leave the port at the link's rate
 * fill it, and it drains at a share gamma of that rate. So it shows that a link is used beyond
 * gamma before any queue builds up. It holds no packet and drops none. A packet meets it at
 * arrival, not at departure as in HULL. Both are the same while the port is empty, the case for
 * which the phantom queue exists. The paper sets no bound. Here the buffer is the bound, so that
 * an overload by traffic that ignores marks is forgotten soon after its end.
 *
 * Levels are in units of 1 byte / (8 * 10^9). Exactly rate_bps of them leave in a nanosecond, so
 * nothing is rounded and nothing drifts. 64 bits hold 2.3 * 10^9 bytes; buffers are clamped to
 * 2 * 10^9. Rates up to 2^64 - 1.
 */
#ifndef SLUICE_LAWS_MARK_H
#define SLUICE_LAWS_MARK_H

#include "types.h"

struct sl_vq_settings {
	sl_u64 rate_bps;	   /* drain rate; 0: no model of the port, all packets pass unmarked */
	sl_u64 mark_bytes;	   /* K, or min of the ramp; 0: do not mark by the backlog */
	sl_u64 buffer_bytes;	   /* bound of the backlog; 0: no bound below SL_VQ_MAX_BYTES */
	sl_u64 mark_max_bytes;	   /* max of the ramp; if not above mark_bytes: no ramp, only K */
	sl_u64 phantom_rate_bps;   /* gamma * rate_bps; 0: no phantom queue */
	sl_u64 phantom_mark_bytes; /* threshold of the phantom queue */
	sl_u64 mark_most_q32;	   /* the ramp's largest probability, below 1; 0: 1 */
};

/* All zero: empty. */
struct sl_vq_state {
	sl_u64 level;	/* backlog in units of 1 byte / SL_VQ_UNITS_PER_BYTE */
	sl_u64 last_ns; /* time up to which both levels are drained */
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

/* The level after `elapsed_ns` of draining. */
SL_LAW sl_u64 sl_vq_drained(sl_u64 level, sl_u64 rate_bps, sl_u64 elapsed_ns)
{
	/* Otherwise the product is at most level: it cannot overflow. */
	if (elapsed_ns > level / rate_bps)
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

/* max(0, phantom + sent - rate_bps * elapsed_ns), if at least `sent` can drain in this time. */
SL_LAW sl_u64 sl_vq_phantom_shrunk(sl_u64 phantom, sl_u64 sent, sl_u64 rate_bps, sl_u64 elapsed_ns)
{
	sl_u64 sent_ns = sent / rate_bps, first;

	if (elapsed_ns == sent_ns) /* exactly `sent` drains in this time */
		return phantom;
	first = rate_bps - sent % rate_bps; /* rest of the nanosecond in which `sent` runs out */
	return phantom <= first ? 0 : sl_vq_drained(phantom - first, rate_bps, elapsed_ns - sent_ns - 1);
}

/* The phantom queue after a time in which `sent` units left the port at the link's rate. */
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

/* Drain both levels up to `now_ns`. A time read earlier on another CPU changes nothing. */
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
 * Raise the virtual backlog to the real one. The phantom queue gives the difference back, because
 * these bytes have not left the port. Returns the difference in units: it is what the port should
 * have sent and did not.
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

/* Does the backlog that the packet finds (in units) mark it, by K or the ramp? */
SL_LAW int sl_vq_marks_backlog(const struct sl_vq_settings *set, sl_u64 found, sl_u32 random)
{
	sl_u64 min = set->mark_bytes, max = set->mark_max_bytes, most = set->mark_most_q32;

	if (!min || min > SL_VQ_MAX_BYTES || found <= min * SL_VQ_UNITS_PER_BYTE)
		return 0;
	if (max > SL_VQ_MAX_BYTES)
		max = SL_VQ_MAX_BYTES;
	if (max <= min || found > max * SL_VQ_UNITS_PER_BYTE)
		return 1;
	if (!most || most > 1ULL << 32)
		most = 1ULL << 32;
	/* Both sides are at most 2^63. */
	return random * (max - min) < (found / SL_VQ_UNITS_PER_BYTE - min) * most;
}

SL_LAW int sl_vq_marks_phantom(const struct sl_vq_settings *set, sl_u64 phantom)
{
	return set->phantom_rate_bps && set->phantom_mark_bytes <= SL_VQ_MAX_BYTES &&
	       phantom > set->phantom_mark_bytes * SL_VQ_UNITS_PER_BYTE;
}

/*
 * The verdict on a packet of `len_bytes` (as the qdisc counts them) that arrives at `now_ns`.
 * `random`: uniform over 32 bits, new for each packet; only the ramp uses it.
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
