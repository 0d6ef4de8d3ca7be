/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The tag of a connection's data, by what its flow has sent and what its program has declared. */
#ifndef SLUICE_TAG_OF_FLOW_BPF_H
#define SLUICE_TAG_OF_FLOW_BPF_H

#include "flow.bpf.h"
#include "tag.h"
#include "../laws/ucp.h"

/*
 * Does the segment belong to the declared flow? A segment from before the flow, or with data from after its last byte
 * does not. A flow of unknown size also ends with an idle gap: a sender with a known size may have to wait, and is not
 * done. `before`: bytes of the flow before the segment, and more than any flow has if the segment is from before it.
 */
static __always_inline int in_declared_flow(const struct declared_flow *declared, __u64 before, __u64 attained,
					    int has_data)
{
	if (!(declared->fields & SLUICE_HAS_SIZE))
		return before <= attained;
	return has_data ? before < declared->size_bytes : before <= declared->size_bytes;
}

/* Does the flow's deadline decide about its tag? */
static __always_inline int is_timed(const struct declared_flow *declared, __u64 now_ns,
				    const struct tag_settings *set)
{
	return (set->carries & TAG_DEADLINES) && (declared->fields & SLUICE_HAS_DEADLINE) &&
	       !((set->carries & TAG_FORGETS_LATE) && now_ns >= declared->deadline_ns);
}

/*
 * Tag of a packet of so many bytes whose flow has sent `attained` bytes before it. `offset` counts the connection's
 * bytes, as first_byte of the declaration does.
 */
static __always_inline int tag_of_flow(const struct socket_flow *flow, __u64 offset, __u32 data_bytes, __u64 attained,
				       __u64 now_ns, const struct tag_settings *set)
{
	const struct declared_flow *declared = &flow->declared;
	__u64 shown = sl_tag_shown(attained, data_bytes), before = offset - declared->first_byte;

	if (!in_declared_flow(declared, before, attained, data_bytes > 0))
		return sl_attained_tag(shown);
	if (flow->state.phase != SLUICE_SENDING)
		return SL_TAG_BACKGROUND;
	if (is_timed(declared, now_ns, set))
		return sl_deadline_tag(sl_tag_shown(before > attained ? before : attained, data_bytes),
				       set->urgent_after_bytes,
				       sl_ucp_urgency_q16(declared->start_ns, declared->deadline_ns, now_ns));
	if ((set->carries & TAG_SIZES) && (declared->fields & SLUICE_HAS_SIZE))
		return sl_known_size_tag(declared->size_bytes);
	return sl_attained_tag(shown);
}

#endif
