// SPDX-License-Identifier: Apache-2.0
// The port's side of PDQ: it lists the most critical flows and leaves each what those before it leave of the link. Source:
// Hong, Caesar, Godfrey, "Finishing Flows Quickly with Preemptive Scheduling", SIGCOMM 2012, section 3.3, algorithms 1 to
// 3. What differs: a port counts a rate as granted when it grants it, not when the answer returns, so that flows that
// ask within one round trip do not get the link twice. A flow that is not listed waits; there is no fair rate for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "event/time.hpp"
#include "packet/scheduling_header.hpp"

namespace sluice
{

constexpr double PDQ_EARLY_START_TRIPS = 2; // K
constexpr double PDQ_PROBING_TRIPS = 0.2;   // X, for each flow that is more critical

class CriticalFlows
{
      public:
	// A packet of the flow asks (algorithm 1).
	void on_request(std::uint64_t id, SchedulingHeader &header, Time now, double link_bps, double backlog_bits)
	{
		control_rate(now, link_bps, backlog_bits);
		if (header.hops < PDQ_MAX_HOPS)
			header.path[header.hops++] = this;
		if (header.paused_by && header.paused_by != this)
			return forget(id);
		const auto flow = list(id, header);
		const bool is_listed = flow != flows_.end();
		const bool is_held_back = is_listed && flow->is_paused && now < calm_until_;
		const double bps = is_listed && !is_held_back ? std::min(left_for(flow), header.bps) : 0;

		header.paused_by = bps > 0 ? nullptr : this;
		header.bps = bps > 0 ? bps : header.bps;
		if (!is_listed)
			return;
		if (bps > 0 && flow->is_paused)
			calm_until_ = now + header.round_trip;
		flow->is_paused = bps <= 0;
		flow->bps = std::max(bps, 0.0);
	}

	// The answer passes on its way back (algorithm 3).
	void on_answer(std::uint64_t id, SchedulingHeader &header)
	{
		if (header.paused_by && header.paused_by != this)
			return forget(id);
		const auto flow = find(id);

		if (flow != flows_.end() && !header.paused_by)
			flow->bps = std::min(flow->bps, header.bps);
		header.probing_trips = std::max(header.probing_trips,
						PDQ_PROBING_TRIPS * static_cast<double>(flow - flows_.begin()));
	}

	void forget(std::uint64_t id)
	{
		std::erase_if(flows_, [id](const ListedFlow &flow) { return flow.id == id; });
	}

      private:
	struct ListedFlow {
		Time deadline, left; // D, T
		std::uint64_t id;
		Time round_trip;
		double bps;	// R
		bool is_paused; // P is this port

		// The earliest deadline first, then the shortest.
		bool operator<(const ListedFlow &other) const
		{
			return std::tie(deadline, left, id) < std::tie(other.deadline, other.left, other.id);
		}
	};
	using Place = std::vector<ListedFlow>::iterator;

	Place find(std::uint64_t id)
	{
		return std::find_if(flows_.begin(), flows_.end(),
				    [id](const ListedFlow &flow) { return flow.id == id; });
	}

	// What waits shall be sent within two round trips (section 3.3.3).
	void control_rate(Time now, double link_bps, double backlog_bits)
	{
		Time sum = 0;

		if (now < controlled_until_)
			return;
		for (const ListedFlow &flow : flows_)
			sum += flow.round_trip;
		const Time two_trips = flows_.empty() ? 0 : 2 * sum / static_cast<Time>(flows_.size());
		const double drain_bps = two_trips ? backlog_bits * SECOND / static_cast<double>(two_trips) : 0;

		bps_ = std::max(link_bps - drain_bps, 0.0);
		controlled_until_ = now + two_trips;
	}

	// The place of the flow; the end if two flows for each that sends are more critical.
	Place list(std::uint64_t id, const SchedulingHeader &header)
	{
		ListedFlow flow = {header.deadline, header.left, id, header.round_trip, 0, header.paused_by == this};

		if (const auto known = find(id); known != flows_.end()) {
			flow.bps = known->bps;
			flow.is_paused = known->is_paused;
			flows_.erase(known);
		}
		flows_.insert(std::lower_bound(flows_.begin(), flows_.end(), flow), flow);
		const auto sending = std::count_if(flows_.begin(), flows_.end(),
						   [](const ListedFlow &each) { return each.bps > 0; });

		flows_.resize(
			std::min(flows_.size(), 2 * std::max<std::size_t>(static_cast<std::size_t>(sending), 1)));
		return find(id);
	}

	// What the flows before this one leave (algorithm 2). Some that will soon be over count as gone (Early Start).
	double left_for(Place flow) const
	{
		double left_bps = bps_, trips = 0;

		for (auto each = flows_.begin(); each != flow; ++each) {
			const double own = static_cast<double>(each->left) / static_cast<double>(each->round_trip);

			if (each->round_trip && own < PDQ_EARLY_START_TRIPS && trips < PDQ_EARLY_START_TRIPS)
				trips += own;
			else
				left_bps -= each->bps;
		}
		return left_bps;
	}

	std::vector<ListedFlow> flows_; // the most critical first
	double bps_ = 0;		// C: what flows may use of the link …
	Time controlled_until_ = 0;	// … until it is computed again
	Time calm_until_ = 0;		// until then no other flow that waits may send
};

} // namespace sluice
