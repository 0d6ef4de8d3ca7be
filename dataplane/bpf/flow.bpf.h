/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * All that the kernel knows of the flow on a socket: the declaration of its program
 * (include/sluice.h) and the state from its congestion control. The setsockopt hook, the
 * congestion controls and the tagger share this map. The machine has one such map
 * (dataplane/shared_resource.py). A socket's entry goes away with the socket.
 *
 * Every writer holds the socket's lock: the hook runs with it, and so does a congestion control.
 */
#ifndef SLUICE_FLOW_BPF_H
#define SLUICE_FLOW_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "sluice.h"
#include "../laws/datcp.h"
#include "../laws/tag.h"

struct declared_flow {
	__u32 fields;		/* SLUICE_HAS_*, without SLUICE_HAS_CONTROL */
	__u32 quench;		/* enum sluice_quench */
	__u64 size_bytes;	/* 0: unknown */
	__u64 start_ns;		/* CLOCK_MONOTONIC, as all times here */
	__u64 deadline_ns;	/* 0: none */
	__u64 first_byte;	/* the connection's bytes_acked just before the flow's first byte */
	__u32 importance_milli; /* as in sluice.h; zero if not declared */
	__u32 importance_share_milli;
};

struct socket_flow {
	struct declared_flow declared;
	struct sluice_state state;
	struct sl_datcp_state datcp;
	struct sl_tag_state tag; /* of a socket that carries its tag itself (socket_tag.bpf.h), otherwise zero */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct socket_flow);
} sluice_flow_2 SEC(".maps"); /* 2: the layout; a new layout gets a new number */

#endif
