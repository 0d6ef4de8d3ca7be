// SPDX-License-Identifier: Apache-2.0
// Round-trip times, smoothed (RFC 6298, section 2), from samples of time stamps.
#pragma once

#include <algorithm>
#include <cstdint>

#include "event/time.hpp"

namespace sluice
{

class RttEstimator
{
      public:
	void sample(Time rtt)
	{
		least_ = std::min(least_, rtt);
		if (!smoothed_) {
			smoothed_ = rtt;
			variation_ = rtt / 2;
			return;
		}
		Time error = rtt - smoothed_;
		variation_ += ((error < 0 ? -error : error) - variation_) / 4;
		smoothed_ += error / 8;
	}

	// 0 before the first sample.
	Time smoothed() const
	{
		return smoothed_;
	}

	Time variation() const
	{
		return variation_;
	}

	// NEVER before the first sample.
	Time least() const
	{
		return least_;
	}

	std::uint32_t smoothed_us() const
	{
		return static_cast<std::uint32_t>(smoothed_ / MICROSECOND);
	}

	std::uint32_t least_us() const
	{
		return least_ == NEVER ? 0 : static_cast<std::uint32_t>(least_ / MICROSECOND);
	}

      private:
	Time smoothed_ = 0;
	Time variation_ = 0;
	Time least_ = NEVER;
};

} // namespace sluice
