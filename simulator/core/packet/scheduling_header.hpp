// SPDX-License-Identifier: Apache-2.0
// The header by which a PDQ sender asks every port on its path for a rate, in each packet, and which the ACK brings back.
// Source: Hong, Caesar, Godfrey, "Finishing Flows Quickly with Preemptive Scheduling", SIGCOMM 2012, section 3.1. The
// packets themselves stay small: the flow keeps the headers of those that are under way, by the time when they were sent.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>

#include "event/time.hpp"

namespace sluice
{

class CriticalFlows;

constexpr std::size_t PDQ_MAX_HOPS = 8;

struct SchedulingHeader {
	double bps = 0;				  // R: what the sender asks for, then the least that a port left over
	const CriticalFlows *paused_by = nullptr; // P: the port that lets the flow wait
	Time deadline = NEVER;			  // D
	Time left = 0;		  // T: how long the flow's packets take that have not left, at the rate asked for
	Time round_trip = 0;	  // as the sender has measured it; 0: not yet
	double probing_trips = 1; // I: round trips between two probes of a flow that waits
	std::array<CriticalFlows *, PDQ_MAX_HOPS> path = {};
	std::size_t hops = 0; // ports that have answered, less those that the answer has passed on its way back
};

class SchedulingHeaders
{
      public:
	SchedulingHeader next; // of the packets that leave from now on
	bool leaving = false;  // the flow is over: ports forget it

	// On the way to the receiver.
	SchedulingHeader &of(Time sent_at)
	{
		return under_way_.try_emplace(sent_at, next).first->second;
	}

	// On the way back; nullptr if an answer to a later packet has come.
	SchedulingHeader *returning(Time sent_at)
	{
		auto found = under_way_.find(sent_at);

		return found == under_way_.end() ? nullptr : &found->second;
	}

	// The answer to this packet has come: forgets the packets up to it. Nothing if a later one had been answered.
	std::optional<SchedulingHeader> take(Time sent_at)
	{
		if (sent_at <= answered_)
			return {};
		SchedulingHeader header = of(sent_at);

		answered_ = sent_at;
		under_way_.erase(under_way_.begin(), under_way_.upper_bound(sent_at));
		return header;
	}

      private:
	std::map<Time, SchedulingHeader> under_way_;
	Time answered_ = -1;
};

} // namespace sluice
