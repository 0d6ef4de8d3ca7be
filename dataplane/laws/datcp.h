/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * DATCP: precedence from urgency and importance, a cut by precedence, and quenching of flows that cannot make it.
 *
 * Algorithm 1, at the end of each window of data (V_rtt bytes acknowledged in T_rtt):
 *   R_last = V_rtt / T_rtt
 *   R_avg  = R_last in slow start, else R_avg / 10 + 9 / 10 * R_last        (the paper's alpha = 0.1)
 *   R_desired = V_remain / T_remain                                       beyond everything once the deadline has passed
 *   g = min(|R_desired - R_avg| / R_avg, G)
 *   U = U + g when R_desired > R_avg, else U - g;  U_min <= U <= U_max
 *   P = phi * I + (1 - phi) * U
 * Window: a = 1; on an ECN echo, at most once a window,
 *   cwnd = cwnd * (1 - b),  b = 2 / (1 + 3 P)                               equation (5) with P = 1, b = 1/2 for a standard flow
 * Algorithm 2, when U was raised in the window before:
 *   theta counts the windows in which R_avg did not grow in spite of it; any window in which U was not raised sets it to 0
 *   theta >= Theta: with probability 1 - P / P_max the flow is quenched; theta = 0
 *
 * Source: Zhang, Wang, Li, Dong, Cheng, "DATCP: deadline-aware TCP for the commoditized data centers", J. China Univ. Posts
 * Telecom., sections 3.1 to 3.3. theta as its listing has it: growth takes nothing back.
 *
 * What the paper leaves open, or we have otherwise:
 *   U = 1 at the start, a standard flow; U_min = 1/2, b = 0.8: who is ahead of his time yields.
 *   U_max = P_max = 64, b = 0.01: equation (5) takes all flows to be marked at the same times. Marks by chance hit large
 *     windows more often, and shares grow more like the root of P: to have five times a standard flow's takes P = 30.
 *   G = 0.25; the paper gives 0.05, for its figure 9 alone. In 100 Mb/s a round trip is ten times its 0.5 ms, and a deadline of
 *     3 s is missed at 0.05: U has not enough windows to rise in.
 *   Theta = 12: some 24 windows in a row that want more and do not get it. With fewer, flows that begin together are quenched
 *     together, before the others have seen that the first one has gone.
 *   T_remain is shortened by 8 round trips, a quarter of it at most: R_avg is steered to what is just enough, and a correction
 *     takes some round trips to act. Without, half of the flows are 1 % late.
 *   A suspended flow goes on, "when network load is light", after 16 windows in a row without a mark and with a round trip
 *     that exceeds the least one by at most a quarter of what it did when the flow was quenched (or a quarter of itself).
 *
 * Rates in bytes a second (rate.h), the rest Q16, each rounded down (g within a unit where rates are 2^47 and more apart).
 * Any input. P lies within 2^-16 … 64. R_avg begins with R_last: no average is zero, and after a zero one begins anew.
 */
#ifndef SLUICE_LAWS_DATCP_H
#define SLUICE_LAWS_DATCP_H

#include "rate.h"
#include "types.h"

#define SL_DATCP_ONE_Q16 (1U << 16)
#define SL_DATCP_STEP_MAX_Q16 (1U << 14) /* G = 0.25 */
#define SL_DATCP_URGENCY_MIN_Q16 (1U << 15)
#define SL_DATCP_URGENCY_MAX_Q16 (64U << 16)
#define SL_DATCP_PRECEDENCE_MAX_Q16 (64U << 16)
#define SL_DATCP_FRUITLESS_MAX 12U /* Theta */
#define SL_DATCP_CALM_WINDOWS 16U
#define SL_DATCP_LEAD_ROUND_TRIPS 8ULL

/* What a flow has been told to be. */
struct sl_datcp_goal {
	sl_u32 timed; /* size and deadline are known */
	sl_u32 may_quench;
	sl_u32 importance_milli;       /* I, 1000 is a standard flow's */
	sl_u32 importance_share_milli; /* phi, 0 … 1000 */
};

/* One window of data. */
struct sl_datcp_window {
	sl_u64 acked_bytes;	/* V_rtt */
	sl_u64 took_us;		/* T_rtt */
	sl_u64 remaining_bytes; /* V_remain after it */
	sl_u64 left_us;		/* T_remain after it: see sl_datcp_left_us */
	sl_u32 slow_start;
	sl_u32 random; /* uniform over 32 bits */
};

/* All zero: a flow of which no window has ended. */
struct sl_datcp_state {
	sl_u64 average_bytes_per_s; /* R_avg */
	sl_u64 desired_bytes_per_s; /* R_desired */
	sl_u32 urgency_q16;	    /* U; 0 stands for the start, 1 */
	sl_u32 precedence_q16;	    /* P; 0 before the first window */
	sl_u32 fruitless;	    /* theta */
	sl_u32 raised;		    /* U was raised in the last window, or would have been but for U_max */
	sl_u32 calm;		    /* windows in a row that a suspended flow found the network lightly loaded */
	sl_u32 rtt_at_quench_us;
};

/* T_remain of a flow that has `left_us` until its deadline, less what a correction takes to act. */
SL_LAW sl_u64 sl_datcp_left_us(sl_u64 left_us, sl_u32 rtt_us)
{
	sl_u64 lead_us = SL_DATCP_LEAD_ROUND_TRIPS * rtt_us;

	return left_us - (lead_us < left_us / 4 ? lead_us : left_us / 4);
}

/* R_avg after a window. */
SL_LAW sl_u64 sl_datcp_average(sl_u64 average, sl_u64 last, int slow_start)
{
	if (slow_start || !average)
		return last;
	return average / 10 + last / 10 * 9 + (average % 10 + last % 10 * 9) / 10;
}

/* g, Q16. */
SL_LAW sl_u32 sl_datcp_step_q16(sl_u64 desired, sl_u64 average)
{
	sl_u64 gap = desired > average ? desired - average : average - desired;

	if (gap / 20 >= average) /* |…| / R_avg >= 20, or R_avg is 0: far beyond G */
		return gap ? SL_DATCP_STEP_MAX_Q16 : 0;
	while (gap >> 47) { /* let the product fit; both lose the same bits */
		gap >>= 1;
		average >>= 1;
	}
	gap = (gap << 16) / average;
	return gap < SL_DATCP_STEP_MAX_Q16 ? (sl_u32)gap : SL_DATCP_STEP_MAX_Q16;
}

/* U after a window, Q16. */
SL_LAW sl_u32 sl_datcp_urgency_q16(sl_u32 urgency_q16, sl_u64 desired, sl_u64 average)
{
	sl_u32 step = sl_datcp_step_q16(desired, average);

	if (desired > average)
		return urgency_q16 < SL_DATCP_URGENCY_MAX_Q16 - step ? urgency_q16 + step : SL_DATCP_URGENCY_MAX_Q16;
	return urgency_q16 > SL_DATCP_URGENCY_MIN_Q16 + step ? urgency_q16 - step : SL_DATCP_URGENCY_MIN_Q16;
}

/* P of a flow of urgency U (Q16) and this importance, Q16. */
SL_LAW sl_u32 sl_datcp_precedence_q16(sl_u32 urgency_q16, const struct sl_datcp_goal *goal)
{
	sl_u32 phi = goal->importance_share_milli < 1000 ? goal->importance_share_milli : 1000;
	sl_u64 importance_q16 = (sl_u64)goal->importance_milli * SL_DATCP_ONE_Q16 / 1000;
	sl_u64 p = (phi * importance_q16 + (1000ULL - phi) * urgency_q16) / 1000;

	if (p > SL_DATCP_PRECEDENCE_MAX_Q16)
		return SL_DATCP_PRECEDENCE_MAX_Q16;
	return p ? (sl_u32)p : 1;
}

/* b for a precedence, Q16; 1 for P <= 1/3. */
SL_LAW sl_u32 sl_datcp_decrease_q16(sl_u32 precedence_q16)
{
	sl_u64 b = (2ULL << 32) / (SL_DATCP_ONE_Q16 + 3ULL * precedence_q16);

	return b < SL_DATCP_ONE_Q16 ? (sl_u32)b : SL_DATCP_ONE_Q16;
}

/* Algorithm 2: is the flow quenched? `grew`: R_avg is larger than a window ago. */
SL_LAW int sl_datcp_quench(struct sl_datcp_state *s, int grew, sl_u32 random)
{
	sl_u64 stays;

	if (!s->raised) {
		s->fruitless = 0;
		return 0;
	}
	if (grew || ++s->fruitless < SL_DATCP_FRUITLESS_MAX)
		return 0;
	s->fruitless = 0;
	stays = ((sl_u64)s->precedence_q16 << 32) / SL_DATCP_PRECEDENCE_MAX_Q16;
	return random >= stays;
}

/* A window of data has ended: U, P and the rates; 1 when the flow is to be quenched now. */
SL_LAW int sl_datcp_window_ended(struct sl_datcp_state *s, const struct sl_datcp_goal *goal,
				 const struct sl_datcp_window *w)
{
	sl_u64 before = s->average_bytes_per_s;
	sl_u32 urgency_before = s->urgency_q16 ? s->urgency_q16 : SL_DATCP_ONE_Q16;
	int quenched;

	s->average_bytes_per_s =
		sl_datcp_average(before, sl_rate_bytes_per_s(w->acked_bytes, w->took_us), w->slow_start != 0);
	s->desired_bytes_per_s = goal->timed ? sl_rate_bytes_per_s(w->remaining_bytes, w->left_us) : 0;
	s->urgency_q16 =
		goal->timed ? sl_datcp_urgency_q16(urgency_before, s->desired_bytes_per_s, s->average_bytes_per_s)
			    : SL_DATCP_ONE_Q16;
	s->precedence_q16 = sl_datcp_precedence_q16(s->urgency_q16, goal);
	quenched = goal->may_quench && sl_datcp_quench(s, s->average_bytes_per_s > before, w->random);
	s->raised = goal->timed && s->desired_bytes_per_s > s->average_bytes_per_s;
	return quenched;
}

/* The flow is suspended from now on: its rates begin anew when it goes on, its urgency stays. */
SL_LAW void sl_datcp_suspended(struct sl_datcp_state *s, sl_u32 rtt_us)
{
	s->rtt_at_quench_us = rtt_us;
	s->average_bytes_per_s = 0;
	s->fruitless = s->raised = s->calm = 0;
}

/* A window of a suspended flow has ended: may it go on? */
SL_LAW int sl_datcp_may_resume(struct sl_datcp_state *s, sl_u32 marked, sl_u32 rtt_us, sl_u32 least_rtt_us)
{
	sl_u32 queued_us = s->rtt_at_quench_us > least_rtt_us ? s->rtt_at_quench_us - least_rtt_us : 0;
	sl_u64 bound_us = least_rtt_us + (sl_u64)(queued_us > least_rtt_us ? queued_us : least_rtt_us) / 4;

	s->calm = marked || rtt_us > bound_us ? 0 : s->calm + 1;
	return s->calm >= SL_DATCP_CALM_WINDOWS;
}

#endif
