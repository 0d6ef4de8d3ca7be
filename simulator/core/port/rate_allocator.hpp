// SPDX-License-Identifier: Apache-2.0
// The port's side of D3: every port on the path grants a rate, first come first served. Source:
// Wilson et al., "Better never than late", SIGCOMM 2011, section 4.2 and figure 3. D3 needs sizes,
// deadlines and ports that do arithmetic, so it is here for comparison only.
#pragma once

#include <algorithm>

#include "event/time.hpp"
#include "packet/rate_request.hpp"

namespace sluice
{

// Two counters and a number of flows; nothing for each flow.
class RateAllocator
{
      public:
	// Answers a request. The capacity shrinks by `backlog_bits` over a round trip, so that
	// queues drain.
	void on_request(RateRequest &request, double link_bps, double backlog_bits)
	{
		double &granted = request.granted[std::min(request.hop++, D3_MAX_HOPS - 1)];
		double seconds = std::max(static_cast<double>(request.round_trip) / SECOND, 1e-6);
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
