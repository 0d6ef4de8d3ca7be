/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The virtual queue of a port: ECN marking and the buffer bound, over all queues of the port.
 *
 *   backlog(t) = max(0, backlog(t') - rate * (t - t'))         between packets
 *   a packet of `len` bytes arrives:
 *     drop   when backlog + len > buffer                       (the backlog with the packet)
 *     mark   when backlog > K                                  (the backlog that it finds, without itself)
 *     backlog += len                                           unless it was dropped
 *
 * Source: marking on arrival by the instantaneous queue: DCTCP (Alizadeh et al., SIGCOMM 2010, section 3.1); one
 * threshold for the whole port whatever the queue: PIAS (Bai et al., NSDI 2015, section 4.3); the queue is virtual,
 * because OVS hands packets to a qdisc whose own length is not seen at the hook. It equals the real backlog while the
 * port sends at `rate_bps` whenever it has something to send.
 *
 * The level is kept in units of 1 byte / (8 * 10^9): rate_bps of them leave per nanosecond, exactly, so nothing is
 * rounded and nothing drifts. 64 bits hold 2.3 * 10^9 bytes; buffers are clamped to 2 * 10^9. Rates up to 2^64 - 1.
 */
#ifndef SLUICE_LAWS_MARK_H
#define SLUICE_LAWS_MARK_H

#include "types.h"

struct sl_vq_settings {
	sl_u64 rate_bps;     /* drain rate; 0: the port is not modelled, everything passes unmarked */
	sl_u64 mark_bytes;   /* K; 0: never mark */
	sl_u64 buffer_bytes; /* bound of the backlog; 0: no bound below SL_VQ_MAX_BYTES */
};

/* All zero: empty. */
struct sl_vq_state {
	sl_u64 level;	/* backlog in units of 1 byte / SL_VQ_UNITS_PER_BYTE */
	sl_u64 last_ns; /* time up to which the level was drained */
};

enum sl_vq_verdict { SL_VQ_PASS = 0, SL_VQ_MARK = 1, SL_VQ_DROP = 2 };

#define SL_VQ_UNITS_PER_BYTE 8000000000ULL
#define SL_VQ_MAX_BYTES 2000000000ULL

SL_LAW sl_u64 sl_vq_backlog_bytes(const struct sl_vq_state *q)
{
	return q->level / SL_VQ_UNITS_PER_BYTE;
}

/* Drain up to `now_ns`. A clock read earlier on another CPU drains nothing and does not turn the time back. */
SL_LAW void sl_vq_drain(struct sl_vq_state *q, sl_u64 rate_bps, sl_u64 now_ns)
{
	sl_u64 elapsed_ns;

	if (now_ns <= q->last_ns)
		return;
	elapsed_ns = now_ns - q->last_ns;
	q->last_ns = now_ns;
	if (elapsed_ns > q->level / rate_bps) /* else the product is at most level: it cannot overflow */
		q->level = 0;
	else
		q->level -= elapsed_ns * rate_bps;
}

/* What happens to a packet of `len_bytes` (as the qdisc counts it) that arrives at `now_ns`. */
SL_LAW enum sl_vq_verdict sl_vq_arrive(struct sl_vq_state *q, const struct sl_vq_settings *set, sl_u32 len_bytes,
				       sl_u64 now_ns)
{
	sl_u64 bound = set->buffer_bytes, found, len = (sl_u64)len_bytes * SL_VQ_UNITS_PER_BYTE;

	if (!set->rate_bps)
		return SL_VQ_PASS;
	if (!bound || bound > SL_VQ_MAX_BYTES)
		bound = SL_VQ_MAX_BYTES;
	bound *= SL_VQ_UNITS_PER_BYTE;
	sl_vq_drain(q, set->rate_bps, now_ns);
	found = q->level;
	if (len_bytes > SL_VQ_MAX_BYTES || len > bound || found > bound - len)
		return SL_VQ_DROP;
	q->level = found + len;
	if (!set->mark_bytes || set->mark_bytes > SL_VQ_MAX_BYTES)
		return SL_VQ_PASS;
	return found > set->mark_bytes * SL_VQ_UNITS_PER_BYTE ? SL_VQ_MARK : SL_VQ_PASS;
}

#endif
