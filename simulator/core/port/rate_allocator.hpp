// SPDX-License-Identifier: Apache-2.0
// D3 (Wilson et al., "Better never than late", SIGCOMM 2011): once a round trip a sender asks for a rate, every port on the way
// grants one, first come first served, and the sender sends at the least of them. Needs sizes and deadlines, and ports that do
// arithmetic: here for comparison only.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "event/time.hpp"

namespace sluice
{

constexpr unsigned D3_MAX_HOPS = 8;

// What a request packet carries; a flow has one under way. Rates in bit/s.
struct RateRequest {
	double wanted = 0;	  // what is left over the time that is left; 0 without a deadline
	double wanted_before = 0; // in the last request
	std::array<double, D3_MAX_HOPS> granted = {};
	unsigned hop = 0; // ports so far
	bool first = true;
	bool leaving = false; // the flow is done: it returns what it had

	double least() const
	{
		return hop ? *std::min_element(granted.begin(), granted.begin() + hop) : 0;
	}
};

// The port's side (section 4.2 and figure 3 there). Two counters and a number of flows, nothing for each flow.
class RateAllocator
{
      public:
	// `backlog_bits` are taken off the capacity over a time, so that queues drain.
	void on_request(RateRequest &request, double link_bps, double backlog_bits, Time round_trip)
	{
		double &granted = request.granted[std::min(request.hop++, D3_MAX_HOPS - 1)];
		double seconds = std::max(static_cast<double>(round_trip) / SECOND, 1e-6);
		double capacity = std::max(link_bps - backlog_bits / seconds, 0.0);

		flows_ += request.first ? 1 : request.leaving ? -1 : 0;
		demand_ += (request.leaving ? 0 : request.wanted) - (request.first ? 0 : request.wanted_before);
		allocated_ -= request.first ? 0 : granted;
		granted = request.leaving ? 0 : grant(request.wanted, capacity);
		allocated_ += granted;
	}

      private:
	double grant(double wanted, double capacity) const
	{
		double left = std::max(capacity - allocated_, 0.0);
		double fair = std::max(capacity - demand_, 0.0) / std::max(flows_, 1);

		return left > wanted ? std::min(wanted + fair, left) : left;
	}

	double demand_ = 0;    // of all flows
	double allocated_ = 0; // to all flows
	int flows_ = 0;
};

} // namespace sluice
