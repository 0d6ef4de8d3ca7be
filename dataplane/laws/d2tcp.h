/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * D2TCP: DCTCP with a cut that is gamma-corrected by how imminent the deadline is.
 *
 *   imminence           d = T_c / D, within 1/2 … 2       time that the flow needs over time that is left
 *                       T_c = B / (3/4 * W / RTT)         B bytes to go, at the mean of a sawtooth with peak W
 *   no deadline         d = 1                             as DCTCP
 *   on the first mark   cwnd = cwnd * (1 - alpha^d / 2)   (packets; once a window; alpha as in dctcp.h)
 *   otherwise           cwnd = cwnd + 1                   each window
 *
 * Source: Vamanan, Hasan, Vijaykumar, "Deadline-Aware Datacenter TCP (D2TCP)", SIGCOMM 2012,
 * section 3. From the deadline on, d is 2, because no time is left for the remaining bytes.
 *
 * The rate is rounded down to a byte a second, T_c to a microsecond, d to Q16.
 * Without a rate, d is 2.
 *
 * Any input. Sizes above 2^44 bytes count as 2^44 bytes, windows above a third of that as the
 * third. Times above 2^44 microseconds count as 2^44 microseconds.
 */
#ifndef SLUICE_LAWS_D2TCP_H
#define SLUICE_LAWS_D2TCP_H

#include "power.h"
#include "rate.h"
#include "types.h"

#define SL_D2TCP_ONE_Q16 (1U << 16)
#define SL_D2TCP_MIN_Q16 (1U << 15)
#define SL_D2TCP_MAX_Q16 (1U << 17)

/* d (Q16) of a flow with `remaining_bytes` to go in `left_us`, at `window_bytes` per `rtt_us`. */
SL_LAW sl_u32 sl_d2tcp_imminence_q16(sl_u64 remaining_bytes, sl_u64 left_us, sl_u64 window_bytes, sl_u32 rtt_us)
{
	sl_u64 rate, needed_us, d;

	if (!left_us)
		return SL_D2TCP_MAX_Q16;
	if (remaining_bytes > SL_RATE_BYTES_MAX)
		remaining_bytes = SL_RATE_BYTES_MAX;
	if (left_us > SL_RATE_BYTES_MAX)
		left_us = SL_RATE_BYTES_MAX;
	if (window_bytes > SL_RATE_BYTES_MAX / 3)
		window_bytes = SL_RATE_BYTES_MAX / 3;
	rate = sl_rate_bytes_per_s(3 * window_bytes, 4ULL * rtt_us);
	if (!rate)
		return SL_D2TCP_MAX_Q16;
	needed_us = remaining_bytes * SL_US_PER_S / rate;
	if (needed_us / 2 >= left_us)
		return SL_D2TCP_MAX_Q16;
	d = (needed_us << 16) / left_us; /* needed_us < 2^45 */
	return d < SL_D2TCP_MIN_Q16 ? SL_D2TCP_MIN_Q16 : (sl_u32)d;
}

/* Penalty p (Q20) of the cut cwnd * (1 - p / 2), for alpha (Q20) and imminence (Q16). */
SL_LAW sl_u32 sl_d2tcp_penalty_q20(sl_u32 alpha_q20, sl_u32 imminence_q16)
{
	return sl_power_q20(alpha_q20, imminence_q16);
}

#endif
