// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* sluice_mcp: Karuna's deadline control. The law is laws/mcp.h; DCTCP without deadline or size. */
#define CC mcp
#include "cc_window_law.bpf.h"
