// SPDX-License-Identifier: Apache-2.0
// What the ports on a path write about themselves into the data packets of a connection (in-band network telemetry;
// Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019, section 3.1). The packets themselves stay small:
// the connection keeps the hops of those that are under way, by number.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "laws/hooks.h"

namespace sluice
{

struct Hops {
	std::array<sl_hop, SL_HOPS_MAX> of = {};
	std::uint32_t count = 0;
};

class Telemetry
{
      public:
	// The packet leaves its source, perhaps once more.
	void begin(std::uint32_t number)
	{
		under_way_[number].count = 0;
	}

	// A port sends the packet. Later hops than the last that fits are left out.
	void add(std::uint32_t number, const sl_hop &hop)
	{
		auto found = under_way_.find(number);

		if (found != under_way_.end() && found->second.count < SL_HOPS_MAX)
			found->second.of[found->second.count++] = hop;
	}

	// The hops of a packet whose ACK has come.
	const Hops &of(std::uint32_t number)
	{
		return under_way_[number];
	}

	// All packets from one up to another are acknowledged, and so is this one.
	void forget(std::uint32_t from, std::uint32_t to, std::uint32_t number)
	{
		under_way_.erase(number);
		for (; from != to; from++)
			under_way_.erase(from);
	}

      private:
	std::unordered_map<std::uint32_t, Hops> under_way_;
};

} // namespace sluice
