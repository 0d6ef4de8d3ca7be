// SPDX-License-Identifier: Apache-2.0
// A part of a network: some of its hosts and of its switches' ports, the flows that these hosts send, and
// the loop that takes events from its calendar. The whole network is one part, or it has several, which run
// window by window (windows.hpp).
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
#include "fabric/mailbox.hpp"
#include "fabric/network.hpp"
#include "fabric/outlet.hpp"
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
	// `stage`: parts of later stages run after it in each window. `depot`: what all parts share; nullptr: this
	// part is the whole network.
	Part(Network &network, std::uint16_t stage, Time near, std::uint64_t seed, PacketDepot *depot);
	Part(const Part &) = delete; // its parts hold references to each other
	Part &operator=(const Part &) = delete;
	~Part() = default;

	// `number`: of the port.
	const PortKind &kind_of(PortSettings settings, std::uint32_t number);

	// Flows must be added in the order of their starts, and none may start in the past.
	void add_flow(const FlowSpec &spec);

	// The whole network: runs until the given time, but for at most so many events. True if it
	// has reached the time. `stops`: it returns after each event with which a flow has ended.
	bool run(Time until, std::uint64_t events, bool stops);

	// A part of several, before its first window: returns when something happens next here. NEVER if nothing
	// does.
	Time prepare(bool turn);

	// Takes what others have posted, runs up to `limit`, and posts what has departed. Returns when something
	// happens next, here or in the next window at the far end of a link that leads from here.
	Time run_window(Time limit, bool turn);

	// Whether the window that has just ended has left something to settle.
	bool has_report() const
	{
		return !completions.empty() || !perhaps_over.empty() || !world.report.dropped.empty() ||
		       !world.report.repeats.empty();
	}

	void remove(Flow &flow);

	// The mailbox for another part.
	Mailbox &mailbox_for(Part &far, std::uint16_t number);

	const std::uint16_t stage;
	World world;
	std::vector<std::unique_ptr<Flow>> flows; // that have started here
	std::deque<FlowSpec> waiting;		  // that will
	std::vector<Outlet> outlets;
	std::vector<std::unique_ptr<Mailbox>> mailboxes; // that it fills, one for each other part
	std::vector<Mailbox *> inbox;			 // that it empties

	// Of this window, until it is settled.
	std::vector<Completion> completions;
	std::vector<Flow *> perhaps_over;

      private:
	void fetch(bool turn);
	Time post(Time limit, bool turn);
	void handle(Event *event);
	void handle_arrival(Port &port);
	void handle_crossing(Crossing &crossing);
	void on_timer(TimerEvent *event);
	void deliver(Packet *packet);
	void deliver_to_source(Packet *packet, Flow &flow);
	void deliver_message(Packet *packet, Flow &flow);
	void start_flows();
	void schedule_start();
	bool opens(Flow &flow);
	void end_flow(Flow &flow);
	void complete(Flow &flow);
	void finish(Flow &flow, Outcome outcome);
	void remove_if_over(Flow &flow);

	Network &network_;
	Time next_ = NEVER; // when an event or a departure to another part follows, as of the last window
	std::vector<std::uint32_t> watched_; // outlets that are not idle
	std::vector<std::unique_ptr<PortKind>> kinds_;
	std::unordered_map<std::uint32_t, std::deque<Window::Kept>>
		idle_; // what idle connections keep, by their hosts
	Event start_;
	bool start_pending_ = false;
};

} // namespace sluice
