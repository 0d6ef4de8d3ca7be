// SPDX-License-Identifier: Apache-2.0
// What all parts of a simulation share: time, packets, chance, and the totals that conservation is checked by.
#pragma once

#include <cstdint>
#include <vector>

#include "event/calendar.hpp"
#include "packet/packet.hpp"
#include "event/timer.hpp"

namespace sluice
{

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): small, fast, and the same everywhere.
class Random
{
      public:
	explicit Random(std::uint64_t seed) : state_(seed)
	{
	}

	std::uint64_t next()
	{
		std::uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;

		z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ULL;
		z = (z ^ z >> 27) * 0x94D049BB133111EBULL;
		return z ^ z >> 31;
	}

	std::uint32_t next32()
	{
		return static_cast<std::uint32_t>(next() >> 32);
	}

      private:
	std::uint64_t state_;
};

// Packets of every kind, since the start: sent = received + dropped + in use of the pool.
struct Totals {
	std::uint64_t sent = 0;
	std::uint64_t received = 0;
	std::uint64_t dropped = 0;
	std::uint64_t hops = 0; // a packet that has crossed a link
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
	std::vector<Flow *>
		bereft; // done, and their last packet under way has been dropped: nothing else will end them
};

} // namespace sluice
