// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "event/time.hpp"

namespace sluice
{

// How the retransmission timeout follows from the round-trip time.
enum class TimeoutRule : std::uint8_t {
	Rfc6298, // max(least, smoothed + 4 variations)
	Linux,	 // smoothed + max(least, 4 variations)
	Fixed,	 // always `least`, without backing off (pFabric)
};

struct TimeoutSettings {
	TimeoutRule rule = TimeoutRule::Rfc6298;
	Time least = 10 * MILLISECOND;
	Time initial = SECOND; // before the first sample of the round-trip time
	Time tick = 0;	       // of the clock by which timers fire (timeout/ticks.hpp); 0: timers are exact
	// After this many timeouts in a row, a connection sends only headers until one is answered
	// (pFabric, SIGCOMM 2013, section 4.2). So its packets do not fill the queues of other
	// flows. 0: never.
	std::uint32_t starved_after = 0;
	// The first unacknowledged packet gets a whole timeout when it is retransmitted, as in
	// Linux.
	bool restarts_for_first = false;
};

} // namespace sluice
