// SPDX-License-Identifier: Apache-2.0
// The port's side of PDQ: it lists the most critical flows and leaves each what those before it leave of the link. Source:
// Hong, Caesar, Godfrey, "Finishing Flows Quickly with Preemptive Scheduling", SIGCOMM 2012, section 3.3, algorithms 1 to
// 3. What differs: a port counts a rate as granted when it grants it, not when the answer returns, so that flows that
// ask within one round trip do not get the link twice. A flow that is not listed waits; there is no fair rate for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "event/time.hpp"
#include "packet/scheduling_header.hpp"

namespace sluice
{

class CriticalFlows
{
      public:
	// A packet of the flow asks (algorithm 1).
	void on_request(std::uint64_t id, SchedulingHeader &header, Time now, double link_bps, double backlog_bits);

	// The answer passes on its way back (algorithm 3).
	void on_answer(std::uint64_t id, SchedulingHeader &header);

	void forget(std::uint64_t id);

      private:
	struct ListedFlow {
		std::uint64_t id = 0;
		Time deadline = NEVER, left = 0, round_trip = 0; // D, T, RTT
		double bps = 0;					 // R
		bool is_paused = false;				 // P is this port

		bool operator<(const ListedFlow &other) const;
		double trips_left() const;
	};

	std::vector<ListedFlow>::iterator find(std::uint64_t id);
	void control_rate(Time now, double link_bps, double backlog_bits);
	std::size_t list(const SchedulingHeader &header, std::uint64_t id);
	double available(std::size_t place) const;

	std::vector<ListedFlow> flows_; // the most critical first
	double bps_ = 0;		// C: what flows may use of the link …
	Time controls_at_ = 0;		// … and when it is computed again
	Time calm_until_ = 0;		// until then no other flow that waits may send
};

} // namespace sluice
