/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The table of a control's hooks, for the simulator. It comes after the control's file, so its names begin with sl_. */
#ifndef SLUICE_LAWS_HOOKS_TABLE_H
#define SLUICE_LAWS_HOOKS_TABLE_H

#include "hooks.h"

#ifndef SL_ECHO
#define SL_ECHO SL_ECHO_EXACT
#endif

#ifdef SL_ON_WINDOW
static void sl_table_on_window(struct sl_sender *sl_seen)
{
	SL_ON_WINDOW(sl_seen);
}
#endif

#ifdef SL_ON_START
static void sl_table_on_start(struct sl_sender *sl_seen)
{
	SL_ON_START(sl_seen);
}
#endif

#ifdef SL_ON_ACK
static void sl_table_on_ack(struct sl_sender *sl_seen, const struct sl_ack *sl_newest)
{
	SL_ON_ACK(sl_seen, sl_newest);
}
#endif

#ifdef SL_ON_LOSS
static void sl_table_on_loss(struct sl_sender *sl_seen)
{
	SL_ON_LOSS(sl_seen);
}
#endif

#ifdef SL_ON_TIMEOUT
static void sl_table_on_timeout(struct sl_sender *sl_seen)
{
	SL_ON_TIMEOUT(sl_seen);
}
#endif

SL_STATIC_ASSERT(SL_STATE_BYTES <= SL_STATE_MAX, "SL_STATE has at most 512 bytes");

extern const struct sl_hooks sl_hooks;

const struct sl_hooks sl_hooks = {
	.version = SL_HOOKS_VERSION,
#ifdef SL_PARAMETERS
	.parameters = sizeof(struct sl_parameters) / sizeof(sl_u32),
#endif
	.state_bytes = SL_STATE_BYTES,
	.echo = SL_ECHO,
#ifdef SL_TELEMETRY
	.telemetry = SL_TELEMETRY,
#endif
#ifdef SL_ON_WINDOW
	.on_window = sl_table_on_window,
#endif
#ifdef SL_ON_START
	.on_start = sl_table_on_start,
#endif
#ifdef SL_ON_ACK
	.on_ack = sl_table_on_ack,
#endif
#ifdef SL_ON_LOSS
	.on_loss = sl_table_on_loss,
#endif
#ifdef SL_ON_TIMEOUT
	.on_timeout = sl_table_on_timeout,
#endif
};

#endif
