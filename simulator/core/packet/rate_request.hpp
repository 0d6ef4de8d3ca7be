// SPDX-License-Identifier: Apache-2.0
// The header in which a D3 sender asks every port on its path for a rate. Rates are in bit/s.
// Source: Wilson et al., "Better never than late", SIGCOMM 2011, section 4.1.
#pragma once

#include <algorithm>
#include <array>

#include "event/time.hpp"

namespace sluice
{

constexpr unsigned D3_MAX_HOPS = 8;

// A flow has one request in flight at a time.
struct RateRequest {
	double wanted = 0;	  // bytes left over the time left; 0 for a flow without a deadline
	double wanted_before = 0; // `wanted` of the previous request
	std::array<double, D3_MAX_HOPS> granted = {};
	unsigned hop = 0;    // ports that have answered so far
	Time round_trip = 0; // the sender's smoothed round-trip time
	bool first = true;
	bool leaving = false; // the flow is complete and returns what it was granted

	// The rate of the port that granted least.
	double least() const
	{
		return hop ? *std::min_element(granted.begin(), granted.begin() + hop) : 0;
	}
};

} // namespace sluice
