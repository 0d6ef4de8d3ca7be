// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* sluice_mcp: Karuna's deadline control. The law is laws/mcp.h; DCTCP without deadline or size. */
#define SL_CONTROL mcp
#include "../laws/hooks.h"
#define SL_ON_WINDOW(s) sl_control_mcp((s)->window)
#include "cc_file.bpf.h"
