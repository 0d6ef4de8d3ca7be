/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * UCP: the less urgent a deadline flow is, the harder it is cut.
 *
 *   urgency             s = T_e / (T_d - T_e)          elapsed time over time left; from the deadline on, the cap
 *   no deadline         s = 1                          as DCTCP
 *   on the first mark   cwnd = cwnd * (1 - alpha^s / 2)   (packets; once a window; alpha as in dctcp.h)
 *   otherwise           cwnd = cwnd + 1                each window
 *
 * Source: Wang, Xu, Liu, "Aemon: Information-agnostic Mix-flow Scheduling in Data Center
 * Networks", APNet 2017, slides 22–29. The slides cut while alpha^s > 0. alpha never returns to
 * zero by itself, so this law cuts only in windows that carried a mark, as DCTCP does. The slides
 * give no cap. Here s goes up to 16, also in the tag, but counts as an exponent only up to 4. At s
 * = 4, a window with alpha = 1/2 loses less than a thirtieth. More urgency would only fill
 * buffers.
 *
 * s is rounded down to Q16. After 2^47 ns (39 hours) of elapsed time it is within one unit.
 * Any input: a start in the future counts as no elapsed time.
 */
#ifndef SLUICE_LAWS_UCP_H
#define SLUICE_LAWS_UCP_H

#include "power.h"
#include "types.h"

#define SL_UCP_ONE_Q16 (1U << 16)
#define SL_UCP_URGENCY_MAX_Q16 (16U << 16)
#define SL_UCP_EXPONENT_MAX_Q16 (4U << 16)

/* s of a flow that began at `start_ns` and must be done by `deadline_ns` (0: no deadline), Q16. */
SL_LAW sl_u32 sl_ucp_urgency_q16(sl_u64 start_ns, sl_u64 deadline_ns, sl_u64 now_ns)
{
	sl_u64 elapsed, left;

	if (!deadline_ns)
		return SL_UCP_ONE_Q16;
	if (now_ns >= deadline_ns)
		return SL_UCP_URGENCY_MAX_Q16;
	elapsed = now_ns > start_ns ? now_ns - start_ns : 0;
	left = deadline_ns - now_ns;
	if (elapsed / 16 >= left)
		return SL_UCP_URGENCY_MAX_Q16;
	if (elapsed >= 1ULL << 47) { /* 39 hours, so that the product fits */
		elapsed >>= 16;
		left >>= 16;
	}
	return left ? (sl_u32)((elapsed << 16) / left) : SL_UCP_URGENCY_MAX_Q16;
}

/* Penalty p (Q20) of the cut cwnd * (1 - p / 2), for alpha (Q20) and urgency (Q16). */
SL_LAW sl_u32 sl_ucp_penalty_q20(sl_u32 alpha_q20, sl_u32 urgency_q16)
{
	return sl_power_q20(alpha_q20, urgency_q16 < SL_UCP_EXPONENT_MAX_Q16 ? urgency_q16 : SL_UCP_EXPONENT_MAX_Q16);
}

#endif
