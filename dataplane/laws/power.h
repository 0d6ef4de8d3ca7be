/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * alpha^s in integers, for a share alpha in 0 … 1 (Q20) and an exponent s >= 0 (Q16). UCP and
 * D2TCP cut by it.
 *
 *   alpha^s = 2^(-s * L),   L = -log2(alpha)
 *
 * L comes bit by bit. If m is in [1, 2), its square is in [1, 4). The next bit of log2 m is 1 if
 * the square is 2 or more. 2^-f is the product of 2^(-2^-i) over the bits i of the fraction f. Both
 * take a loop of 24 steps, once a window.
 *
 * Error: less than 2 units of Q20 (2^-19) for alpha in 0 … 2^20 and s in 0 … 16, measured against
 * double precision. L is cut off after 24 bits (2^-24), and the squarings add less than
 * 24 * 1.5 * 2^-31 to that. s multiplies both by at most 16, and the result changes by ln 2 times
 * that: below 0.9 unit. The product adds 24 * 2^-32, and rounding adds half a unit.
 * Larger s count as 16, larger alpha as 1. alpha^0 is 1. 0^s is 0 for s > 0: no mark, no cut.
 */
#ifndef SLUICE_LAWS_POWER_H
#define SLUICE_LAWS_POWER_H

#include "types.h"

#define SL_POWER_ONE_Q20 (1U << 20)
#define SL_POWER_EXPONENT_MAX_Q16 (16U << 16)
#define SL_POWER_BITS 24

/* 1 - 2^(-2^-i), i = 1 … 24, Q32. */
static const sl_u32 sl_power_missing_q32[SL_POWER_BITS] = {
	1257966796U, 683344693U, 356464920U, 182092523U, 92032293U, 46265331U, 23195300U, 11613351U,
	5810606U,    2906286U,	 1453389U,   726756U,	 363393U,   181701U,   90851U,	  45426U,
	22713U,	     11357U,	 5678U,	     2839U,	 1420U,	    710U,      355U,	  177U,
};

/*
 * -log2(alpha) for alpha in 1 … 2^20 (Q20): 0 … 20, Q24. The loops here and below have no
 * branches, because BPF's verifier would follow both ways of each.
 */
SL_LAW sl_u32 sl_minus_log2_q24(sl_u32 alpha_q20)
{
	sl_u32 whole = 0, fraction = 0, i, by, shift;
	sl_u64 m = alpha_q20, carry; /* Q20, shifted into [1, 2) */

	for (by = 16; by; by >>= 1) {
		shift = (m < 1ULL << (21 - by)) * by;
		m <<= shift;
		whole += shift;
	}
	m <<= 11; /* Q31 */
	for (i = 0; i < SL_POWER_BITS; i++) {
		m = m * m >> 31;
		carry = m >> 32;
		m >>= carry;
		fraction = fraction << 1 | (sl_u32)carry;
	}
	return (whole << SL_POWER_BITS) - fraction;
}

/* 2^-e for e >= 0 (Q24), Q20. */
SL_LAW sl_u32 sl_half_to_the_q20(sl_u64 exponent_q24)
{
	sl_u64 whole = exponent_q24 >> SL_POWER_BITS, product = 1ULL << 32, bit;
	sl_u32 i;

	if (whole > 21)
		return 0;
	for (i = 0; i < SL_POWER_BITS; i++) {
		bit = exponent_q24 >> (SL_POWER_BITS - 1 - i) & 1;
		product -= ((product * sl_power_missing_q32[i] + (1ULL << 31)) >> 32) * bit;
	}
	return (sl_u32)((product + (1ULL << (11 + whole))) >> (12 + whole));
}

SL_LAW_CALLED sl_u32 sl_power_q20(sl_u32 alpha_q20, sl_u32 exponent_q16)
{
	if (!exponent_q16)
		return SL_POWER_ONE_Q20;
	if (!alpha_q20)
		return 0;
	if (alpha_q20 >= SL_POWER_ONE_Q20)
		return SL_POWER_ONE_Q20;
	if (exponent_q16 > SL_POWER_EXPONENT_MAX_Q16)
		exponent_q16 = SL_POWER_EXPONENT_MAX_Q16;
	return sl_half_to_the_q20((sl_u64)sl_minus_log2_q24(alpha_q20) * exponent_q16 >> 16);
}

#endif
