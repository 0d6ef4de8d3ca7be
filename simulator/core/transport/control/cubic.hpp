// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "laws/control.h"
#include "transport/control/congestion_control.hpp"
#include "transport/control/cubic_growth.hpp"
#include "transport/control/hystart.hpp"

namespace sluice
{

// CUBIC with HyStart, as in Linux.
class Cubic final : public CongestionControl
{
      public:
	void on_window_end(sl_window_record &record, const Observed &, Random &) override
	{
		record.penalty_q20 = SL_DCTCP_ALPHA_ONE;
	}

	std::uint32_t after_marks(std::uint32_t cwnd, std::uint32_t) override
	{
		return window_.after_loss(cwnd);
	}

	std::uint32_t after_losses(std::uint32_t, std::uint32_t target) override
	{
		return target;
	}

	std::uint32_t growth(std::uint32_t cwnd, std::uint32_t newly, Time now, Time smoothed_rtt) override
	{
		double target = window_.target(cwnd, newly, now, smoothed_rtt);

		acked_since_growth_ += newly;
		if (acked_since_growth_ * (target - cwnd) < cwnd)
			return 0;
		acked_since_growth_ = 0;
		return 1;
	}

	bool ends_slow_start(const SlowStartAck &ack) override
	{
		return hystart_.is_enough(ack);
	}

	using CongestionControl::on_timeout;

	void on_timeout() override
	{
		CongestionControl::on_timeout();
		hystart_.forget();
	}

      private:
	CubicGrowth window_;
	HyStart hystart_;
};

} // namespace sluice
