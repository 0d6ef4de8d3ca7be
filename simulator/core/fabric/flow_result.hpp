// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "event/time.hpp"

namespace sluice
{

enum class Outcome : std::uint8_t { Finished, Killed, Ended, Unfinished };

// What happened to a flow.
struct FlowResult {
	std::uint64_t id;
	// From the flow's start to the arrival of its last byte. Unless finished: how long it has lasted.
	Time fct;
	std::uint64_t delivered_bytes;
	std::uint32_t retransmissions;
	std::uint32_t timeouts;
	Outcome outcome;
};

} // namespace sluice
