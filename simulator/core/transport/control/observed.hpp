// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "event/time.hpp"

namespace sluice
{

// What a connection has measured by now.
struct Observed {
	Time now;
	Time smoothed_rtt;	     // 0 before the first sample
	Time least_rtt;		     // the same
	std::uint32_t payload_bytes; // of a full packet
};

} // namespace sluice
