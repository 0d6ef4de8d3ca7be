// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* sluice_d2tcp: D2TCP. The law is laws/d2tcp.h; DCTCP without deadline or size. */
#define CC d2tcp
#include "cc_window_law.bpf.h"
