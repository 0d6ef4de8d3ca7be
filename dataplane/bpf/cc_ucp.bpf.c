// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* sluice_ucp: Aemon's urgency-based control. The law is laws/ucp.h; DCTCP without a deadline. */
#define SL_CONTROL ucp
#include "../laws/hooks.h"
#define SL_ON_WINDOW(s) sl_control_ucp((s)->window)
#include "cc_file.bpf.h"
