// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* sluice_d2tcp: D2TCP. The law is laws/d2tcp.h; DCTCP without deadline or size. */
#define SL_CONTROL d2tcp
#include "../laws/hooks.h"
#define SL_ON_WINDOW(s) sl_control_d2tcp((s)->window)
#include "cc_file.bpf.h"
