// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "laws/dqs.h"
#include "port/queueing.hpp"

namespace sluice
{

// How the packets of a port wait.
struct Discipline {
	enum class Scheduler : std::uint8_t { Strict, Shares, ShortestFirst };

	Scheduler scheduler = Scheduler::Strict;
	bool flow_queues = false; // inside a priority, a queue for each flow
	sl_dqs_settings sub_queues = {};
	std::array<double, MAX_QUEUES> shares = {}; // of the link
	std::uint64_t burst_bytes = 0;		    // that a share may send at once after a silence
};

// nullptr for strict priorities, which are a part of the port (waiting_packets.hpp).
std::unique_ptr<Queueing> make_queueing(const Discipline &discipline, std::uint64_t bps);

} // namespace sluice
