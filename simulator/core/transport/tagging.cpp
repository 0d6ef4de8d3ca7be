// SPDX-License-Identifier: Apache-2.0
#include "transport/tagging.hpp"

#include "laws/tag.h"

namespace sluice
{

namespace
{

// Urgency counts from the beginning of the flow, which may be before time 0.
std::uint32_t urgency_q16(const FlowSpec &flow, Time now)
{
	return sl_ucp_urgency_q16(0, static_cast<sl_u64>((flow.deadline - flow.began) / NANOSECOND),
				  static_cast<sl_u64>((now - flow.began) / NANOSECOND));
}

} // namespace

std::uint8_t data_tag(const TransportSettings &settings, const FlowSpec &flow, sl_phase phase,
		      std::uint64_t attained_bytes, Time now)
{
	if (!settings.tag.attained)
		return settings.tag.fixed;
	if (phase != SL_SENDING)
		return SL_TAG_BACKGROUND;
	if (settings.tag.deadlines && flow.is_timed(now, settings.forgets_late))
		return static_cast<std::uint8_t>(
			sl_deadline_tag(attained_bytes, settings.tag.urgent_after_bytes, urgency_q16(flow, now)));
	if (settings.tag.sizes && flow.size_known)
		return static_cast<std::uint8_t>(sl_known_size_tag(flow.bytes));
	return static_cast<std::uint8_t>(sl_attained_tag(attained_bytes));
}

std::uint8_t header_tag(const TransportSettings &settings)
{
	return settings.tag.attained ? SL_TAG_ATTAINED_FIRST : settings.tag.fixed;
}

} // namespace sluice
