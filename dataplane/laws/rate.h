/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Bytes over microseconds as bytes a second. The laws that know a flow's size share it.
 *
 * Exact, rounded down, for up to 2^44 bytes (17 TB). More bytes, or bytes in no time, are
 * SL_RATE_MAX.
 */
#ifndef SLUICE_LAWS_RATE_H
#define SLUICE_LAWS_RATE_H

#include "types.h"

#define SL_RATE_MAX (~0ULL)
#define SL_RATE_BYTES_MAX (1ULL << 44)
#define SL_US_PER_S 1000000ULL

SL_LAW sl_u64 sl_rate_bytes_per_s(sl_u64 bytes, sl_u64 us)
{
	if (!us || bytes > SL_RATE_BYTES_MAX)
		return bytes ? SL_RATE_MAX : 0;
	return bytes * SL_US_PER_S / us;
}

/* Bytes of a flow of this size that are not acknowledged yet. */
SL_LAW sl_u64 sl_remaining_bytes(sl_u64 size_bytes, sl_u64 acked_bytes)
{
	return size_bytes > acked_bytes ? size_bytes - acked_bytes : 0;
}

/* Microseconds until the deadline; 0 if it has passed. */
SL_LAW sl_u64 sl_left_us(sl_u64 deadline_ns, sl_u64 now_ns)
{
	return deadline_ns > now_ns ? (deadline_ns - now_ns) / 1000 : 0;
}

#endif
