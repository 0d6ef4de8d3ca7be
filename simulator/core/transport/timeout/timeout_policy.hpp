// SPDX-License-Identifier: Apache-2.0
// When a connection gives up waiting for an ACK: the retransmission timeout, its backing off, and
// starvation.
#pragma once

#include <algorithm>
#include <cstdint>

#include "event/time.hpp"
#include "transport/timeout/rtt_estimator.hpp"
#include "transport/timeout/ticks.hpp"
#include "transport/timeout/timeout_settings.hpp"

namespace sluice
{

class TimeoutPolicy
{
      public:
	explicit TimeoutPolicy(const TimeoutSettings &settings) : settings_(settings)
	{
	}

	// From now until the timeout.
	Time timeout(const RttEstimator &rtt) const
	{
		return std::min(base(rtt) << backoff_, LONGEST);
	}

	// When it comes, if the timer is set at that time.
	Time due(const RttEstimator &rtt, Time from) const
	{
		return fires_at(from, timeout(rtt), settings_.tick);
	}

	// The round-trip time was sampled, so the timeout doubles no longer.
	void on_sample()
	{
		backoff_ = 0;
	}

	void on_ack()
	{
		in_a_row_ = 0;
	}

	// A SYN or data went unanswered.
	void on_timeout()
	{
		if (settings_.rule != TimeoutRule::Fixed)
			backoff_ = std::min(backoff_ + 1, MOST_BACKOFF);
	}

	void on_data_timeout()
	{
		in_a_row_++;
	}

	// So many timeouts in a row that the connection must send headers only.
	bool is_starved() const
	{
		return settings_.starved_after && in_a_row_ >= settings_.starved_after;
	}

      private:
	static constexpr Time LONGEST = 60 * SECOND;
	static constexpr std::uint32_t MOST_BACKOFF = 12;

	Time base(const RttEstimator &rtt) const
	{
		if (settings_.rule == TimeoutRule::Fixed)
			return settings_.least;
		if (!rtt.smoothed())
			return settings_.initial;
		if (settings_.rule == TimeoutRule::Linux)
			return rtt.smoothed() + std::max(settings_.least, 4 * rtt.variation());
		return std::max(settings_.least, rtt.smoothed() + 4 * rtt.variation());
	}

	const TimeoutSettings &settings_;
	std::uint32_t backoff_ = 0;
	std::uint32_t in_a_row_ = 0; // timeouts without an ACK between them
};

} // namespace sluice
