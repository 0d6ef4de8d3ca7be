// SPDX-License-Identifier: Apache-2.0
// The whole network: hosts, switches, links and flows, and the loop that takes events from the
// calendar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "event/calendar.hpp"
#include "event/time.hpp"
#include "event/timer.hpp"
#include "packet/packet.hpp"
#include "port/discipline.hpp"
#include "port/port.hpp"
#include "port/port_settings.hpp"
#include "port/queue_maps.hpp"
#include "routing/routing.hpp"
#include "transport/flow.hpp"
#include "transport/flow_spec.hpp"
#include "transport/settings.hpp"
#include "world/world.hpp"

namespace sluice
{

enum class Outcome : std::uint8_t { Finished, Killed, Ended, Unfinished };

// What happened to a flow.
struct FlowResult {
	std::uint64_t id;
	// From the flow's start to the arrival of its last byte. Unless finished: how long it has lasted.
	Time fct;
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
	Fabric(const Fabric &) = delete; // its parts hold references to each other
	Fabric &operator=(const Fabric &) = delete;
	~Fabric() = default;

	// Adds a port and returns its number. Hosts' own ports come first, so that they have the
	// hosts' numbers.
	std::uint32_t add_port(const PortSettings &settings, const Discipline &discipline, std::uint16_t peer,
			       bool peer_is_host);

	// Sets the queue of each tag at this port, for packets that arrive from now on.
	void set_queue_of(std::uint32_t number, const QueueMap &queue_of)
	{
		port(number).set_queue_of(queue_maps_.shared(queue_of));
	}

	// Changes what a port does, from now on. Its link stays: rate, delay, burst, and the
	// backlog that marks go by.
	void change_port(std::uint32_t number, const PortSettings &settings, const Discipline &discipline);

	// Gives flows that start from now on these settings. Others keep theirs.
	void change_transport(const TransportSettings &transport);

	// Adds a group of equal-cost ports of a switch and returns its number.
	std::uint16_t add_group(const std::vector<std::uint32_t> &ports);

	// Every switch needs a group for every host.
	void set_route(std::uint16_t from_switch, std::uint16_t to_host, std::uint16_t group)
	{
		routing_.set(from_switch, to_host, group);
	}

	// Flows must be added in the order of their starts, and none may start in the past.
	void add_flow(const FlowSpec &spec);

	// Runs until the given time, but for at most so many events. True if it has reached the
	// time.
	bool run(Time until, std::uint64_t events);

	// Results of the flows that have ended since the last call.
	std::vector<FlowResult> take_results();

	// Every flow that has started and not ended, as it is now.
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

	// The port as it is now.
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

	// Counts every packet where it is. Throws std::logic_error if one is missing or counted
	// twice.
	void audit() const;

      private:
	const PortKind &kind_of(const PortSettings &settings);
	void handle(Event *event);
	void handle_arrival(Port &port);
	void on_timer(TimerEvent *event);
	void deliver(Packet *packet);
	void deliver_to_source(Packet *packet, Flow &flow);
	void start_flows();
	void schedule_start();
	bool opens(Flow &flow);
	void end_flow(Flow &flow);
	void finish(Flow &flow, Outcome outcome);
	void remove_if_over(Flow &flow);
	FlowResult result_of(const Flow &flow, Outcome outcome) const;

	World world_;
	std::deque<TransportSettings> transports_; // the last one is in force; flows refer to earlier ones
	std::uint16_t hosts_;
	std::uint16_t switches_;
	std::vector<std::unique_ptr<PortKind>> kinds_;
	QueueMaps queue_maps_;
	std::vector<std::unique_ptr<Port>> ports_;
	Routing routing_;
	std::deque<FlowSpec> waiting_;
	std::vector<std::unique_ptr<Flow>> flows_;
	std::vector<FlowResult> results_;
	std::unordered_map<std::uint32_t, std::vector<Window::Kept>>
		idle_; // what idle connections keep, by their hosts
	Event start_;
	bool start_pending_ = false;
};

} // namespace sluice
