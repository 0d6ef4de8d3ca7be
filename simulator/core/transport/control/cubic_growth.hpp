// SPDX-License-Identifier: Apache-2.0
// CUBIC's window (RFC 9438): it grows with the time since its last reduction. Fast convergence is
// as in section 4.7, without further exceptions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "event/time.hpp"

namespace sluice
{

class CubicGrowth
{
      public:
	static constexpr double BETA = 0.7;

	// The window after a loss.
	std::uint32_t after_loss(std::uint32_t cwnd)
	{
		double w = cwnd;

		w_max_ = w < w_max_ ? w * (1 + BETA) / 2 : w; // fast convergence, section 4.7
		epoch_ = NEVER;
		return std::max<std::uint32_t>(static_cast<std::uint32_t>(w * BETA), 2);
	}

	// The window to aim at, one round trip from now (sections 4.2 to 4.4); never below
	// Reno's.
	double target(std::uint32_t cwnd, std::uint32_t newly_acked, Time now, Time rtt)
	{
		if (epoch_ == NEVER)
			begin(cwnd, now);
		double t = seconds(now - epoch_) + seconds(rtt), d = t - k_;
		double w_cubic = C * d * d * d + w_max_;

		w_reno_ += newly_acked * (w_reno_ < w_max_ ? RENO : 1.0) / cwnd;
		return std::max(std::clamp<double>(w_cubic, cwnd, 1.5 * cwnd), w_reno_);
	}

      private:
	static constexpr double C = 0.4;			    // per second^3
	static constexpr double RENO = 3 * (1 - BETA) / (1 + BETA); // section 4.3

	static double seconds(Time t)
	{
		return static_cast<double>(t) / SECOND;
	}

	void begin(std::uint32_t cwnd, Time now)
	{
		epoch_ = now;
		w_max_ = std::max<double>(w_max_, cwnd);
		k_ = std::cbrt((w_max_ - cwnd) / C);
		w_reno_ = cwnd;
	}

	double w_max_ = 0, k_ = 0, w_reno_ = 0;
	Time epoch_ = NEVER;
};

} // namespace sluice
