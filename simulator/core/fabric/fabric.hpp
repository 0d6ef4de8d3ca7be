// SPDX-License-Identifier: Apache-2.0
// The whole network: hosts, switches, links, the flows, and the loop that takes events from the calendar.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "laws/dqs.h"
#include "transport/flow.hpp"
#include "port/port.hpp"
#include "routing/routing.hpp"
#include "world/world.hpp"

namespace sluice
{

// How the packets of a port wait.
struct Discipline {
	enum class Between : std::uint8_t { Strict, Shares, ShortestFirst };

	Between between = Between::Strict;
	bool flow_queues = false;
	sl_dqs_settings sub_queues = {};
	std::array<double, MAX_QUEUES> shares = {};
	std::uint64_t burst_bytes = 0;
};

std::unique_ptr<Queueing> make_queueing(const Discipline &discipline, std::uint64_t bps);

enum class Outcome : std::uint8_t { Finished, Killed, Ended, Unfinished };

// What became of a flow.
struct FlowResult {
	std::uint64_t id;
	Time fct; // at the receiver: from the flow's start to its last byte; of others than finished ones: how long it was sent
	std::uint64_t delivered_bytes;
	std::uint32_t retransmissions;
	std::uint32_t timeouts;
	Outcome outcome;
};

class Fabric
{
      public:
	Fabric(std::uint16_t hosts, std::uint16_t switches, const TransportSettings &transport, Time near,
	       std::uint64_t seed, bool spray_packets);
	Fabric(const Fabric &) = delete; // its parts point at each other
	Fabric &operator=(const Fabric &) = delete;

	// Hosts first: their ports have the numbers of the hosts. Returns the port's number.
	std::uint32_t add_port(const PortSettings &settings, const Discipline &discipline, std::uint16_t peer,
			       bool peer_is_host);

	// The queue of each tag at this port, from now on.
	void set_queue_of(std::uint32_t number, const QueueMap &queue_of)
	{
		port(number).set_queue_of(queue_maps_.shared(queue_of));
	}

	// Equal-cost ports of a switch; returns the number of the group.
	std::uint16_t add_group(const std::vector<std::uint32_t> &ports);

	// Every switch needs a group towards every host.
	void set_route(std::uint16_t from_switch, std::uint16_t to_host, std::uint16_t group)
	{
		routing_.set(from_switch, to_host, group);
	}

	// In the order of their starts, none in the past.
	void add_flow(const FlowSpec &spec);

	// Runs until the time, or for so many events; true when the time has been reached.
	bool run(Time until, std::uint64_t events);

	std::vector<FlowResult> take_results();

	// Every flow that has begun and is not done, as it stands.
	std::vector<FlowResult> unfinished() const;

	std::size_t flows_under_way() const
	{
		return flows_.size();
	}

	std::size_t flows_waiting() const
	{
		return waiting_.size();
	}

	const std::vector<std::unique_ptr<Flow>> &flows() const
	{
		return flows_;
	}

	// As it is now.
	Port &port(std::uint32_t number)
	{
		ports_.at(number)->catch_up();
		return *ports_[number];
	}

	std::size_t ports() const
	{
		return ports_.size();
	}

	const World &world() const
	{
		return world_;
	}

	// Counts every packet where it is; throws std::logic_error when one is missing or there twice.
	void audit() const;

      private:
	const PortKind &kind_of(const PortSettings &settings);
	void happen(Event *event);
	void on_timer(TimerEvent *event);
	void at_host(Packet *packet);
	void start_flows();
	void schedule_start();
	void end_flow(Flow &flow);
	void finish(Flow &flow, Outcome outcome);
	void remove_if_over(Flow &flow);
	FlowResult result_of(const Flow &flow, Outcome outcome) const;

	World world_;
	TransportSettings transport_;
	std::uint16_t hosts_;
	std::uint16_t switches_;
	std::vector<std::unique_ptr<PortKind>> kinds_;
	QueueMaps queue_maps_;
	std::vector<std::unique_ptr<Port>> ports_;
	Routing routing_;
	std::deque<FlowSpec> waiting_;
	std::vector<std::unique_ptr<Flow>> flows_;
	std::vector<FlowResult> results_;
	Event start_;
	bool start_pending_ = false;
};

} // namespace sluice
