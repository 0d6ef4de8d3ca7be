/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The log of a socket: the inputs and outputs of its congestion control's law, for each window of
 * data. So a tool can run the law again (dataplane/windows.py). Only sockets that a program
 * follows have a log.
 */
#ifndef SLUICE_WINDOWS_H
#define SLUICE_WINDOWS_H

#include "../laws/control.h"

#define WINDOWS_KEPT 128 /* the newest; a power of two */

struct window_log {
	__u32 count; /* of all records so far; the next one goes to count % WINDOWS_KEPT */
	__u32 unused;
	struct sl_window_record records[WINDOWS_KEPT];
};

/* net.core.optmem_max bounds all storage of a socket. Before Linux 6.8 it is 20 KB. */
_Static_assert(sizeof(struct window_log) <= 17000, "leaves room for the socket's other storage");

#endif
