// SPDX-License-Identifier: Apache-2.0
// What a network shares, or a part of it that is simulated by itself: the clock, the packets, the
// random numbers and the totals.
#pragma once

#include <cstdint>
#include <vector>

#include "event/calendar.hpp"
#include "event/timer.hpp"
#include "packet/packet_pool.hpp"
#include "world/random.hpp"
#include "world/trace.hpp"

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

// A retransmission or a timeout.
struct Repeat {
	const CarriedFlow *flow;
	Time at;
	bool is_timeout;
};

// What a part of a network reports at the end of each window (fabric/windows.hpp).
struct WindowReport {
	std::vector<CarriedFlow *> dropped; // the flow of each packet that was dropped
	std::vector<Repeat> repeats;
};

struct World {
	// `depot`: what the parts of a network share; nullptr: the whole network is one.
	World(Time near, std::uint64_t seed, PacketDepot *depot = nullptr)
	    : is_part(depot), calendar(near), packets(depot), timers(calendar), random(seed)
	{
	}

	Time now() const
	{
		return calendar.now();
	}

	// A packet was dropped.
	void lose(Packet *packet)
	{
		totals.dropped++;
		if (is_part) {
			report.dropped.push_back(packet->flow);
		} else {
			packet->flow->packets_under_way--;
			if (packet->flow->reported)
				orphaned_flows.push_back(packet->flow);
		}
		packets.put_back(packet);
	}

	const bool is_part; // not the whole network
	Calendar calendar;
	PacketPool packets;
	TimerEvents timers;
	Random random;
	Totals totals;
	WindowReport report;		    // only of a part
	std::vector<std::uint32_t> sending; // only of a part: outlets whose links are no longer empty
	// Flows that are complete and of which a packet was dropped. If it was the last one, no
	// further event would remove the flow.
	std::vector<CarriedFlow *> orphaned_flows;
	Trace trace;
};

} // namespace sluice
