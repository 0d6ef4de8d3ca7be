// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* sluice_dctcp: DCTCP as a kernel congestion control (RFC 8257). The law is laws/dctcp.h. */
#define SL_CONTROL dctcp
#include "../laws/hooks.h"
#define SL_ON_WINDOW(s) sl_control_dctcp((s)->window)
#include "cc_file.bpf.h"
