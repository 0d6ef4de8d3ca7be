// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "packet/host_queue.hpp"
#include "packet/rate_request.hpp"
#include "packet/scheduling_header.hpp"
#include "packet/telemetry.hpp"

namespace sluice
{

// What links and ports know of a flow whose packets they carry. The transport derives its Flow
// from this.
struct CarriedFlow {
	explicit CarriedFlow(std::uint64_t flow_id) : id(flow_id)
	{
	}

	const std::uint64_t id;
	std::uint32_t packets_under_way = 0;	 // of both directions, as the source counts them (Flow::is_over)
	bool reported = false;			 // the flow's result has been written
	RateRequest *rate_request = nullptr;	 // set by a connection of D3
	SchedulingHeaders *scheduling = nullptr; // set by a connection of PDQ
	HostQueue *host_queue = nullptr;	 // set by a connection that has small queues
	Telemetry *telemetry = nullptr;		 // set by a connection that reads what its hops say
};

} // namespace sluice
