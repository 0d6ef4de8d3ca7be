// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* sluice_ucp: Aemon's urgency-based control. The law is laws/ucp.h; DCTCP without a deadline. */
#define CC ucp
#include "cc_window_law.bpf.h"
