// SPDX-License-Identifier: Apache-2.0
// The whole network: hosts, switches, links and flows. Its parts (part.hpp) take the events from their
// calendars.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "event/time.hpp"
#include "fabric/crossing.hpp"
#include "fabric/flow_result.hpp"
#include "fabric/network.hpp"
#include "fabric/part.hpp"
#include "packet/packet_pool.hpp"
#include "port/discipline.hpp"
#include "port/port.hpp"
#include "port/port_settings.hpp"
#include "port/queue_maps.hpp"
#include "port/shared_buffer.hpp"
#include "transport/flow.hpp"
#include "transport/flow_spec.hpp"
#include "transport/settings.hpp"
#include "world/world.hpp"

namespace sluice
{

class Fabric
{
      public:
	// `near`: of the calendar of each part. Several parts run at once on so many threads. The number of
	// threads changes no result. `stages`: of each part (windows.hpp); empty: 0 for all. `path_salt`: another
	// one gives each flow other paths (routing.hpp).
	Fabric(std::uint16_t hosts, std::uint16_t switches, const TransportSettings &transport,
	       const std::vector<Time> &near, std::uint64_t seed, bool spray_packets, unsigned threads = 1,
	       const std::vector<std::uint16_t> &stages = {}, std::uint32_t path_salt = 0);
	Fabric(const Fabric &) = delete; // its parts hold references to each other
	Fabric &operator=(const Fabric &) = delete;
	~Fabric();

	// Adds a port and returns its number. Hosts' own ports come first, so that they have the
	// hosts' numbers. The port belongs to one part. `far_parts`: those that take the packets at the far end of
	// its link; empty: the same part.
	std::uint32_t add_port(const PortSettings &settings, const Discipline &discipline, std::uint16_t peer,
			       bool peer_is_host, std::uint16_t part = 0,
			       const std::vector<std::uint16_t> &far_parts = {});

	// The ports of a switch share a buffer. With PFC, `into` are the ports whose links lead to the switch, with the
	// headroom of each queue there. All these ports need the setting flow_control.
	void share_buffer(std::uint64_t bytes, std::uint32_t alpha_q16, bool pfc, std::uint64_t margin_bytes,
			  const std::vector<std::uint32_t> &ports, const std::vector<std::uint32_t> &into,
			  const std::vector<std::uint64_t> &headroom_bytes);

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

	// Adds settings for flows that ask for them by the number that this returns.
	std::uint8_t add_transport(const TransportSettings &transport);

	// Adds a group of equal-cost ports of a switch, all of one part, and returns its number.
	std::uint16_t add_group(const std::vector<std::uint32_t> &ports);

	// Every switch needs a group for every host.
	void set_route(std::uint16_t from_switch, std::uint16_t to_host, std::uint16_t group)
	{
		network_.routing.set(from_switch, to_host, group);
	}

	// Flows must be added in the order of their starts, and none may start in the past.
	void add_flow(const FlowSpec &spec);

	// Runs until the given time, but for at most so many events. True if it has reached the
	// time. `stops`: it returns after each event with which a flow has ended; not in a network of several parts.
	bool run(Time until, std::uint64_t events, bool stops = false);

	// Results of the flows that have ended since the last call.
	std::vector<FlowResult> take_results();

	// Every flow that has started and not ended, as it is now.
	std::vector<FlowResult> unfinished() const;

	// The ports of switches by which data of a flow with this id goes now, if packets of a flow take one path.
	std::vector<std::uint32_t> path(std::uint64_t id, std::uint16_t source, std::uint16_t sink);

	std::size_t flows_under_way() const;
	std::size_t flows_waiting() const;
	std::size_t packets_in_use() const;
	Totals totals() const;

	Time now() const
	{
		return parts_.front()->world.now();
	}

	// Traces the windows of these flows, before they start, and their packets at ports that trace flows.
	void trace(const std::vector<std::uint64_t> &flows);

	// What was traced since the last call. A packet may be received later than now.
	std::vector<TraceRow> take_trace();

	// Those that have started. Their order does not depend on threads.
	std::vector<const Flow *> flows() const;

	// The port as it is now.
	Port &port(std::uint32_t number)
	{
		network_.ports.at(number)->catch_up();
		return *network_.ports[number];
	}

	std::size_t ports() const
	{
		return network_.ports.size();
	}

	// Counts every packet where it is. Throws std::logic_error if one is missing or counted
	// twice.
	void audit() const;

      private:
	void check_further(const TransportSettings &transport) const;
	void add_outlet(std::uint32_t number, std::uint16_t part, const std::vector<std::uint16_t> &far_parts);
	Time lookahead() const;
	template <class Count> std::size_t sum(Count &&count) const;

	const std::uint16_t hosts_;
	const std::uint16_t switches_;
	const unsigned threads_;
	const bool is_divided_;
	PacketDepot depot_;
	std::vector<std::unique_ptr<Part>> parts_; // destroyed after the ports, which refer to them
	std::unordered_map<const Port *, std::uint32_t> number_of_port_;
	std::vector<std::uint16_t> part_of_port_;
	QueueMaps queue_maps_;
	std::vector<std::unique_ptr<SharedBuffer>> buffers_;
	Network network_;
	std::vector<std::unique_ptr<Crossing>> crossings_;
	bool turn_ = false; // of the mailboxes (windows.hpp)
};

} // namespace sluice
