// SPDX-License-Identifier: Apache-2.0
// Round-trip times and the retransmission timeout (RFC 6298), from samples of time stamps.
#pragma once

#include <algorithm>
#include <cstdint>

#include "event/time.hpp"

namespace sluice
{

// How the timeout follows from the round trip.
enum class TimeoutRule : std::uint8_t {
	Rfc6298, // smoothed + 4 variations, rto_min at least
	Linux,	 // what exceeds the smoothed time is rto_min at least
	Fixed,	 // always rto_min, without backing off (pFabric)
};

class RoundTrip
{
      public:
	RoundTrip(Time rto_min, Time rto_initial, TimeoutRule rule)
	    : rto_min_(rto_min), rto_initial_(rto_initial), rule_(rule)
	{
	}

	void sample(Time rtt)
	{
		least_ = std::min(least_, rtt);
		backoff_ = 0;
		if (!smoothed_) {
			smoothed_ = rtt;
			variation_ = rtt / 2;
			return;
		}
		Time error = rtt - smoothed_;
		variation_ += ((error < 0 ? -error : error) - variation_) / 4;
		smoothed_ += error / 8;
	}

	void back_off()
	{
		if (rule_ != TimeoutRule::Fixed)
			backoff_ = std::min(backoff_ + 1, 12U);
	}

	Time timeout() const
	{
		return std::min(base() << backoff_, 60 * SECOND);
	}

	// 0 before the first sample.
	Time smoothed() const
	{
		return smoothed_;
	}

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
	Time base() const
	{
		if (rule_ == TimeoutRule::Fixed)
			return rto_min_;
		if (!smoothed_)
			return rto_initial_;
		if (rule_ == TimeoutRule::Linux)
			return smoothed_ + std::max(rto_min_, 4 * variation_);
		return std::max(rto_min_, smoothed_ + 4 * variation_);
	}

	Time rto_min_;
	Time rto_initial_;
	TimeoutRule rule_;
	Time smoothed_ = 0;
	Time variation_ = 0;
	Time least_ = NEVER;
	unsigned backoff_ = 0;
};

} // namespace sluice
