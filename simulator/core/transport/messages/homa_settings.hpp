// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace sluice
{

struct HomaSettings {
	std::uint32_t round_trip_packets = 7;	  // without being asked, and granted beyond what has arrived
	std::uint8_t levels = 8;		  // of priority, 0 the highest
	std::uint8_t unscheduled_levels = 1;	  // a sink grants to as many messages as there are others
	std::vector<std::uint64_t> cutoffs_bytes; // the largest message of each unscheduled level but the last
};

} // namespace sluice
