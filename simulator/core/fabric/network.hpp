// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "event/time.hpp"
#include "fabric/flow_result.hpp"
#include "port/port.hpp"
#include "routing/routing.hpp"
#include "transport/flow.hpp"
#include "transport/settings.hpp"

namespace sluice
{

// What all parts of a network refer to. A port and a switch's routes belong to one part, which
// alone changes them.
struct Network {
	std::deque<TransportSettings> transports; // the last one is in force; flows refer to earlier ones
	std::deque<TransportSettings> others;	  // of flows that ask for one, from number 1 on
	std::vector<std::unique_ptr<Port>> ports; // hosts' own ports first
	Routing routing;
	std::vector<std::uint16_t> part_of_host;
	std::vector<FlowResult> results; // of flows that have ended. Parts that run at once do not touch it

	const TransportSettings &transport_of(const FlowSpec &spec) const
	{
		return spec.transport ? others[spec.transport - 1u] : transports.back();
	}

	// How a flow ended at that time.
	FlowResult result_of(const Flow &flow, Outcome outcome, Time at) const
	{
		std::uint64_t delivered = static_cast<std::uint64_t>(flow.receiver.next_expected()) *
					  transports.front().segment.payload_bytes;

		return {
			.id = flow.spec.id,
			.fct = at - flow.spec.start,
			.delivered_bytes = flow.receiver.is_complete() ? flow.spec.bytes : delivered,
			.retransmissions = flow.connection.retransmissions(at),
			.timeouts = flow.connection.timeouts(at),
			.outcome = outcome,
		};
	}
};

} // namespace sluice
