/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * How a congestion window moves to a smaller target, and how large it is after an idle time.
 *
 *   proportional rate reduction, with each ACK (packets):
 *     in_flight > target    may_send = ceil(delivered * target / cwnd_before) - sent        shrink with the ACKs
 *     otherwise             may_send = min(target - in_flight, max(delivered - sent, newly_delivered) + 1)
 *     cwnd = in_flight + max(0, may_send), at least one packet before anything was sent
 *   restart after idle:     cwnd halves for each timeout of idle time, down to the initial window
 *
 * Source: RFC 6937, section 3 (slow start reduction bound); RFC 2861, section 3.1. `delivered` and
 * `sent` count since the reduction started. Any 32-bit input: products are taken in 64 bits.
 */
#ifndef SLUICE_LAWS_REDUCTION_H
#define SLUICE_LAWS_REDUCTION_H

#include "types.h"

struct sl_reduction {
	sl_u32 cwnd_before;
	sl_u32 target;
	sl_u32 delivered;
	sl_u32 newly_delivered;
	sl_u32 sent;
};

SL_LAW sl_u32 sl_reduced_cwnd(const struct sl_reduction *r, sl_u32 in_flight)
{
	sl_u32 before = r->cwnd_before ? r->cwnd_before : 1;
	sl_u64 allowed, may_send, room;

	if (in_flight > r->target) {
		allowed = ((sl_u64)r->delivered * r->target + before - 1) / before;
		may_send = allowed > r->sent ? allowed - r->sent : 0;
	} else {
		room = r->target - in_flight;
		allowed = r->delivered > r->sent ? r->delivered - r->sent : 0;
		allowed = (allowed > r->newly_delivered ? allowed : r->newly_delivered) + 1;
		may_send = room < allowed ? room : allowed;
	}
	if (!may_send && !r->sent)
		may_send = 1;
	may_send += in_flight;
	return may_send > 0xFFFFFFFFULL ? 0xFFFFFFFFU : (sl_u32)may_send;
}

/*
 * Threshold of slow start after an idle time: at least three quarters of the window before it
 * (RFC 2861). Range: any.
 */
SL_LAW sl_u32 sl_idle_ssthresh(sl_u32 ssthresh, sl_u32 cwnd)
{
	sl_u32 most = (cwnd >> 1) + (cwnd >> 2);

	return ssthresh > most ? ssthresh : most;
}

/* Window after `timeouts` retransmission timeouts of idle time; never larger than before. */
SL_LAW sl_u32 sl_idle_cwnd(sl_u32 cwnd, sl_u32 initial_cwnd, sl_u32 timeouts)
{
	sl_u32 left = timeouts < 32 ? cwnd >> timeouts : 0;
	sl_u32 floor = initial_cwnd < cwnd ? initial_cwnd : cwnd;

	return left > floor ? left : floor;
}

#endif
