/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Generated from policy/controls.py by `make gen`: change that file, not this one. */
#ifndef SLUICE_CONTROLS_GEN_H
#define SLUICE_CONTROLS_GEN_H

/* X(name) for each congestion control. */
#define SL_CONTROLS(X) X(dctcp) X(ucp) X(d2tcp) X(datcp) X(mcp) X(reno) X(cubic) X(pfabric) X(d3) X(homa) X(pdq)

/* X(name) for each control whose law is sl_control_NAME(record) in control.h. */
#define SL_WINDOW_LAWS(X) X(dctcp) X(ucp) X(d2tcp) X(mcp)

#endif
