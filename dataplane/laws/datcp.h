/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * DATCP: precedence from urgency and importance, a cut by precedence, and quenching of flows that
 * cannot meet their deadline.
 *
 * Algorithm 1, at the end of each window of data (V_rtt bytes acknowledged in T_rtt):
 *   R_last = V_rtt / T_rtt
 *   R_avg  = R_last in slow start, otherwise R_avg / 10 + 9 / 10 * R_last   (the paper's alpha = 0.1)
 *   R_desired = V_remain / T_remain                              after the deadline: the largest rate
 *   g = min(|R_desired - R_avg| / R_avg, G)
 *   U = U + g if R_desired > R_avg, otherwise U - g;  U_min <= U <= U_max
 *   P = phi * I + (1 - phi) * U
 * Window: a = 1; on an ECN echo, at most once a window,
 *   cwnd = cwnd * (1 - b),  b = 2 / (1 + 3 P)                    equation (5), P = 1 and b = 1/2 for a standard flow
 * Algorithm 2, if U was raised in the window before:
 *   theta counts the windows in which R_avg did not grow although U was raised
 *   theta >= Theta: with probability 1 - P / P_max the flow is quenched; theta = 0
 *   a window in which U was not raised: theta = 0
 *
 * Source: Zhang, Wang, Li, Dong, Cheng, "DATCP: deadline-aware TCP for the commoditized data
 * centers", J. China Univ. Posts Telecom., sections 3.1 to 3.3. theta follows the paper's listing:
 * a window in which R_avg grows does not lower it.
 *
 * Left open by the paper, or different here:
 *   U = 1 at the start, as for a standard flow. U_min = 1/2, so b = 0.8: a flow ahead of schedule
 *     backs off.
 *   U_max = P_max = 64, so b = 0.01. Equation (5) assumes that all flows are marked at the same
 *     times. Random marks hit large windows more often, so shares grow more like the root of P. A
 *     flow needs P = 30 for five times the share of a standard flow.
 *   G = 0.25. The paper gives 0.05, only for its figure 9. At 100 Mb/s a round trip is ten times
 *     its 0.5 ms. With G = 0.05, U has too few windows to rise in, and a deadline of 3 s is
 *     missed.
 *   Theta = 12: some 24 windows in a row in which the flow wants more and does not get it. With
 *     fewer, flows that start together are quenched together, before the others have seen that the
 *     first is gone.
 *   T_remain is shortened by 8 round trips, but at most by a quarter. The law steers R_avg to just
 *     the rate that is needed, and a correction takes some round trips to act. Without it, half of
 *     the flows are 1 % late.
 *   A suspended flow continues "when network load is light": after 16 windows in a row without a
 *     mark and with RTT <= RTT_min + max(RTT_at_quench - RTT_min, RTT_min) / 4.
 *
 * Rates are in bytes a second (rate.h), all other values in Q16. Each value is rounded down,
 * except that g is within a unit if the rates differ by 2^47 or more. Any input. P is within
 * 2^-16 … 64. R_avg = 0 means that there is no average yet: the next window sets R_avg = R_last.
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

/* The goal that a program has declared for its flow. */
struct sl_datcp_goal {
	sl_u32 timed; /* size and deadline are known */
	sl_u32 may_quench;
	sl_u32 importance_milli;       /* I; 1000 for a standard flow */
	sl_u32 importance_share_milli; /* phi; 0 … 1000 */
};

/* One window of data. */
struct sl_datcp_window {
	sl_u64 acked_bytes;	/* V_rtt */
	sl_u64 took_us;		/* T_rtt */
	sl_u64 remaining_bytes; /* V_remain after it */
	sl_u64 left_us;		/* T_remain after it, from sl_datcp_left_us */
	sl_u32 slow_start;
	sl_u32 random; /* uniform over 32 bits */
};

/* All zero: no window of the flow has ended yet. */
struct sl_datcp_state {
	sl_u64 average_bytes_per_s; /* R_avg */
	sl_u64 desired_bytes_per_s; /* R_desired */
	sl_u32 urgency_q16;	    /* U; 0 before the first window, which means U = 1 */
	sl_u32 precedence_q16;	    /* P; 0 before the first window */
	sl_u32 fruitless;	    /* theta */
	sl_u32 raised;		    /* U was raised in the last window, or U_max prevented it */
	sl_u32 calm;		    /* windows in a row with light load, while suspended */
	sl_u32 rtt_at_quench_us;
};

/* T_remain: `left_us` until the deadline, less the time that a correction takes to act. */
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

	if (gap / 20 >= average) /* gap / R_avg >= 20, or R_avg is 0: far above G */
		return gap ? SL_DATCP_STEP_MAX_Q16 : 0;
	while (gap >> 47) { /* so that the product fits; both lose the same bits */
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

/* P of a flow with urgency U (Q16) and the importance of `goal`, Q16. */
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

/* Algorithm 2: 1 if the flow must be quenched. `grew`: R_avg is larger than a window ago. */
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

/* Update U, P and the rates after a window of data. 1 if the flow must be quenched now. */
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

/* Suspend the flow. When it continues, its rates start again, but its urgency stays. */
SL_LAW void sl_datcp_suspended(struct sl_datcp_state *s, sl_u32 rtt_us)
{
	s->rtt_at_quench_us = rtt_us;
	s->average_bytes_per_s = 0;
	s->fruitless = s->raised = s->calm = 0;
}

/* After a window of a suspended flow: 1 if the flow may continue. */
SL_LAW int sl_datcp_may_resume(struct sl_datcp_state *s, sl_u32 marked, sl_u32 rtt_us, sl_u32 least_rtt_us)
{
	sl_u32 queued_us = s->rtt_at_quench_us > least_rtt_us ? s->rtt_at_quench_us - least_rtt_us : 0;
	sl_u64 bound_us = least_rtt_us + (sl_u64)(queued_us > least_rtt_us ? queued_us : least_rtt_us) / 4;

	s->calm = marked || rtt_us > bound_us ? 0 : s->calm + 1;
	return s->calm >= SL_DATCP_CALM_WINDOWS;
}

#endif
