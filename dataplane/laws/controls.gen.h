/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Generated from policy/controls.py by `make gen`: change that file, not this one. */
#ifndef SLUICE_CONTROLS_GEN_H
#define SLUICE_CONTROLS_GEN_H

/* X(name) for each congestion control. */
#define SL_CONTROLS(X) X(dctcp) X(ucp) X(d2tcp) X(datcp) X(mcp) X(reno) X(cubic) X(pfabric) X(d3)

/* X(name) for each control whose law is sl_control_NAME(record) in control.h. */
#define SL_WINDOW_LAWS(X) X(dctcp) X(ucp) X(d2tcp) X(mcp)

/* 1: the receiver echoes the mark of each packet; 0: as in RFC 3168. */
#define SL_EXACT_ECHO_dctcp 1
#define SL_EXACT_ECHO_ucp 1
#define SL_EXACT_ECHO_d2tcp 1
#define SL_EXACT_ECHO_datcp 0
#define SL_EXACT_ECHO_mcp 1

/* 1: the window grows by as many packets as the policy says; 0: by the control's own rule. */
#define SL_GROWS_dctcp 1
#define SL_GROWS_ucp 1
#define SL_GROWS_d2tcp 1
#define SL_GROWS_datcp 0
#define SL_GROWS_mcp 1

#endif
