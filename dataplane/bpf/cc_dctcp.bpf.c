// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* sluice_dctcp: DCTCP as a kernel congestion control (RFC 8257). The law is laws/dctcp.h. */
#define CC dctcp
#include "cc_window_law.bpf.h"
