// SPDX-License-Identifier: Apache-2.0
// What a port counts. All counters are cumulative.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "laws/tags.gen.h"
#include "port/queueing.hpp"

namespace sluice
{

// Counters of one tag: what a controller reads from a switch by OpenFlow. Aligned to fit one
// cache line.
struct alignas(32) TagCount {
	std::uint64_t packets = 0;
	std::uint64_t bytes = 0;
	std::uint64_t completed = 0; // packets with a FIN
};

using TagCounters = std::array<TagCount, SL_TAG_COUNT>;

// Packets with a FIN by attained-service bucket, for each group of ports through which they
// entered the switch (policy/network/graph.py). As many groups as have ended flows so far.
using EndCounters = std::vector<std::array<std::uint64_t, SL_ATTAINED_BUCKETS>>;

// Counters of one queue: what a port agent reports.
struct QueueCount {
	std::uint64_t packets = 0; // sent
	std::uint64_t bytes = 0;   // sent
	std::uint64_t marked = 0;
	std::uint64_t dropped = 0;
};

using QueueCounters = std::array<QueueCount, MAX_QUEUES>;

struct PortStatistics {
	std::uint64_t packets = 0;    // sent
	std::uint64_t bytes = 0;      // sent
	std::uint64_t most_bytes = 0; // the largest backlog so far
	std::uint64_t marked = 0;
	std::uint64_t dropped = 0;
};

} // namespace sluice
