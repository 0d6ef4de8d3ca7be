/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * MCP: a deadline flow takes only the rate that it needs, and leaves the rest to other flows.
 *
 *   needed rate         gamma = V_remain / T_remain               (bytes a second)
 *   window              cwnd <= ceil(gamma * RTT / MSS), at least 2
 *   marks, growth       as DCTCP, below that
 *   no bound            as DCTCP: after the deadline, or if size or deadline is unknown
 *
 * Source: Chen, Chen, Bai, Alizadeh, "Scheduling Mix-flows in Commodity Datacenters with Karuna",
 * SIGCOMM 2016, section 4. A flow that finishes just at its deadline has near minimal impact on
 * the others. Karuna derives an additive update whose fixed point is this rate. This law sets the
 * window to the fixed point and leaves the reaction to marks to DCTCP's cut.
 *
 * Any input. Sizes above 2^44 bytes count as 2^44 bytes, round trips above 2^19 microseconds as
 * 2^19. The window is at most 2^31 - 1 packets, also if the round trip or the MSS is unknown (0).
 */
#ifndef SLUICE_LAWS_MCP_H
#define SLUICE_LAWS_MCP_H

#include "dctcp.h"
#include "rate.h"
#include "types.h"

#define SL_MCP_NO_BOUND 0x7FFFFFFFU

/*
 * Largest window (packets) for `remaining_bytes` in `left_us`. rtt_us: smoothed round-trip time.
 */
SL_LAW sl_u32 sl_mcp_bound(sl_u64 remaining_bytes, sl_u64 left_us, sl_u32 rtt_us, sl_u32 mss_bytes)
{
	sl_u64 whole_us, window_bytes, packets;

	if (!left_us || !rtt_us || !mss_bytes)
		return SL_MCP_NO_BOUND;
	if (remaining_bytes > SL_RATE_BYTES_MAX)
		remaining_bytes = SL_RATE_BYTES_MAX;
	if (rtt_us > 1U << 19) /* half a second, so that the product fits */
		rtt_us = 1U << 19;
	whole_us = remaining_bytes * rtt_us;
	window_bytes = whole_us / left_us + (whole_us % left_us != 0);
	packets = window_bytes / mss_bytes + (window_bytes % mss_bytes != 0);
	if (packets < SL_MIN_CWND)
		return SL_MIN_CWND;
	return packets < SL_MCP_NO_BOUND ? (sl_u32)packets : SL_MCP_NO_BOUND;
}

#endif
