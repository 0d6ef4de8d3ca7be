// SPDX-License-Identifier: Apache-2.0
// What one congestion control does differently from others: one object for each connection. The
// defaults are Reno's and DCTCP's. Marks cut the window by the law's penalty, losses cut it to a
// half, and it grows by a number of packets a window.
#pragma once

#include <algorithm>
#include <cstdint>

#include "event/time.hpp"
#include "laws/control.h"
#include "laws/hooks.h"
#include "transport/control/observed.hpp"
#include "transport/control/slow_start_ack.hpp"
#include "world/random.hpp"

namespace sluice
{

class CongestionControl
{
      public:
	CongestionControl() = default;
	CongestionControl(const CongestionControl &) = delete;
	CongestionControl &operator=(const CongestionControl &) = delete;
	virtual ~CongestionControl() = default;

	// A window of data has ended: fills the law's answer into its record (laws/control.h).
	virtual void on_window_end(sl_window_record &record, const Observed &observed, Random &random) = 0;

	// The window to reduce to, in packets, because packets were marked.
	virtual std::uint32_t after_marks(std::uint32_t cwnd, std::uint32_t penalty_q20)
	{
		return sl_dctcp_cwnd(cwnd, penalty_q20);
	}

	// The same for losses; `target` is what the cut for marks aims at.
	virtual std::uint32_t after_losses(std::uint32_t cwnd, std::uint32_t target)
	{
		return std::min(target, sl_loss_cwnd(cwnd));
	}

	// By how many packets congestion avoidance enlarges the window with an ACK of `newly`
	// packets.
	virtual std::uint32_t growth(std::uint32_t cwnd, std::uint32_t newly, Time /* now */, Time /* smoothed_rtt */)
	{
		acked_since_growth_ += newly * growth_;
		std::uint32_t grown = acked_since_growth_ / cwnd;

		acked_since_growth_ -= grown * cwnd;
		return grown;
	}

	// By how many packets a window without marks grows.
	void grow_by(std::uint32_t packets)
	{
		growth_ = packets;
	}

	// Whether slow start ends with this ACK although no packet was marked or lost.
	virtual bool ends_slow_start(const SlowStartAck &)
	{
		return false;
	}

	// The window was cut.
	void on_cut()
	{
		acked_since_growth_ = 0;
	}

	virtual void on_timeout()
	{
		acked_since_growth_ = 0;
	}

	// A control that owns its window (laws/hooks.h) replaces all of the above. It answers with the window in
	// packets, at least one.
	virtual bool owns_window() const
	{
		return false;
	}

	// `initial`: the window of a new connection.
	virtual std::uint32_t on_start(const Observed &, std::uint32_t initial)
	{
		return initial;
	}

	virtual std::uint32_t on_ack(const Observed &, const sl_ack &)
	{
		return 0;
	}

	virtual std::uint32_t on_loss(const Observed &)
	{
		return 0;
	}

	virtual std::uint32_t on_timeout(const Observed &)
	{
		return 0;
	}

	// The time between two packets at least.
	virtual Time gap() const
	{
		return 0;
	}

      protected:
	std::uint32_t acked_since_growth_ = 0; // packets, times growth_

      private:
	std::uint32_t growth_ = 1;
};

} // namespace sluice
