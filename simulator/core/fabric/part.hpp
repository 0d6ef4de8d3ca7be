// SPDX-License-Identifier: Apache-2.0
// A part of a network: its switches and hosts, the flows that its hosts send, and the loop that
// takes events from its calendar. The whole network is one part, or it is cut at long links. Then
// the parts run at once, window by window (windows.hpp).
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
#include "fabric/crossing.hpp"
#include "fabric/flow_result.hpp"
#include "fabric/network.hpp"
#include "packet/packet.hpp"
#include "packet/packet_pool.hpp"
#include "port/port.hpp"
#include "port/port_settings.hpp"
#include "transport/flow.hpp"
#include "transport/flow_spec.hpp"
#include "transport/window.hpp"
#include "world/world.hpp"

namespace sluice
{

// The last byte of a flow has arrived.
struct Completion {
	Flow *flow;
	Time at;
};

class Part
{
      public:
	// `depot`: what all parts share; nullptr: this part is the whole network.
	Part(Network &network, Time near, std::uint64_t seed, PacketDepot *depot);
	Part(const Part &) = delete; // its parts hold references to each other
	Part &operator=(const Part &) = delete;
	~Part() = default;

	const PortKind &kind_of(const PortSettings &settings);

	// Flows must be added in the order of their starts, and none may start in the past.
	void add_flow(const FlowSpec &spec);

	// The whole network: runs until the given time, but for at most so many events. True if it
	// has reached the time.
	bool run(Time until, std::uint64_t events);

	// A part that runs beside others: takes what they have posted.
	void fetch(bool turn);

	// When something happens next here: an event, or a departure to another part. NEVER if nothing does.
	Time next() const;

	// Runs up to `limit`, and posts what has departed. Returns when something happens next, here or at
	// the far end of a link that leads from here.
	Time run_window(Time limit, bool turn);

	// Whether the window that has just ended has left something to settle.
	bool has_report() const
	{
		return !completions.empty() || !perhaps_over.empty() || !world.report.dropped.empty() ||
		       !world.report.repeats.empty();
	}

	void remove(Flow &flow);

	World world;
	std::vector<std::unique_ptr<Flow>> flows; // that have started here
	std::deque<FlowSpec> waiting;		  // that will
	std::vector<Crossing *> departing, arriving;

	// Of this window, until it is settled.
	std::vector<Completion> completions;
	std::vector<Flow *> perhaps_over;

      private:
	void handle(Event *event);
	void handle_arrival(Port &port);
	void handle_crossing(Crossing &crossing);
	void on_timer(TimerEvent *event);
	void deliver(Packet *packet);
	void deliver_to_source(Packet *packet, Flow &flow);
	void start_flows();
	void schedule_start();
	bool opens(Flow &flow);
	void end_flow(Flow &flow);
	void complete(Flow &flow);
	void finish(Flow &flow, Outcome outcome);
	void remove_if_over(Flow &flow);

	Network &network_;
	std::vector<std::unique_ptr<PortKind>> kinds_;
	std::unordered_map<std::uint32_t, std::vector<Window::Kept>>
		idle_; // what idle connections keep, by their hosts
	Event start_;
	bool start_pending_ = false;
};

} // namespace sluice
