// SPDX-License-Identifier: Apache-2.0
// What all parts of one simulation share: the clock, the packets, the random numbers and the
// totals.
#pragma once

#include <cstdint>
#include <vector>

#include "event/calendar.hpp"
#include "event/timer.hpp"
#include "packet/packet_pool.hpp"
#include "world/random.hpp"

namespace sluice
{

// Packets of every kind since the start. At any time sent = received + dropped + in use of the
// pool.
struct Totals {
	std::uint64_t sent = 0;
	std::uint64_t received = 0;
	std::uint64_t dropped = 0;
	std::uint64_t hops = 0; // packets times the links that they have crossed
	std::uint64_t events = 0;
};

struct World {
	World(Time near, std::uint64_t seed) : calendar(near), timers(calendar), random(seed)
	{
	}

	Time now() const
	{
		return calendar.now();
	}

	Calendar calendar;
	PacketPool packets;
	TimerEvents timers;
	Random random;
	Totals totals;
	// Flows that are complete and whose last packet was dropped, so that no further event
	// would remove them.
	std::vector<CarriedFlow *> orphaned_flows;
};

} // namespace sluice
