// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "event/time.hpp"

namespace sluice
{

// Packets of a flow have 32-bit numbers. One number more means that there is no last packet.
constexpr std::uint64_t MOST_PACKETS = UINT32_MAX - 1;

constexpr std::uint64_t packets_of(std::uint64_t bytes, std::uint32_t payload_bytes)
{
	return bytes / payload_bytes + (bytes % payload_bytes != 0);
}

// A flow as the scenario orders it.
struct FlowSpec {
	std::uint64_t id = 0;
	std::uint64_t bytes = 0; // at least 1; ignored for an endless flow
	Time start = 0;
	Time began = 0;	   // before `start` if the flow had waited in its program
	Time deadline = 0; // 0: none
	Time until = 0;	   // the end of an endless flow; 0: the flow ends after `bytes`
	std::uint16_t source = 0;
	std::uint16_t sink = 0;
	bool size_known = false;
	std::uint8_t on_quench = 0; // enum sl_on_quench
	std::uint8_t transport = 0; // 0: what is in force when it starts; else the number of `Fabric::add_transport`
	std::uint32_t importance_milli = 0;
	std::uint32_t importance_share_milli = 0;

	// Whether the flow has a deadline at `now`. A deadline that has passed counts unless late
	// flows forget it.
	bool is_timed(Time now, bool forgets_late) const
	{
		return deadline && !(forgets_late && now >= deadline);
	}
};

class FlowTooLong : public std::invalid_argument
{
      public:
	explicit FlowTooLong(const FlowSpec &flow)
	    : std::invalid_argument("flow " + std::to_string(flow.id) + " has more than " +
				    std::to_string(MOST_PACKETS) + " packets")
	{
	}
};

} // namespace sluice
