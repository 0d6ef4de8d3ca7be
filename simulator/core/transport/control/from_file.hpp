// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "event/time.hpp"
#include "laws/hooks.h"
#include "transport/control/congestion_control.hpp"
#include "transport/control/control_file.hpp"
#include "transport/control/observed.hpp"

namespace sluice
{

// The control of one connection, by the hooks of a file.
class FromFile final : public CongestionControl
{
      public:
	FromFile(const ControlFile &file, std::uint32_t largest_window, std::uint64_t link_bps)
	    : file_(file), largest_(largest_window)
	{
		sender_.link_bytes_per_s = link_bps / 8;
		sender_.own = state_.data();
		sender_.parameters = file.parameters();
	}

	void on_window_end(sl_window_record &record, const Observed &observed, Random &) override
	{
		if (!file_.hooks().on_window)
			return;
		note(observed);
		sender_.window = &record;
		file_.hooks().on_window(&sender_);
	}

	bool owns_window() const override
	{
		return file_.owns_window();
	}

	std::uint32_t on_start(const Observed &observed, std::uint32_t initial) override
	{
		sender_.cwnd_q16 = initial * SL_Q16_ONE;
		return answer(file_.hooks().on_start, observed);
	}

	std::uint32_t on_ack(const Observed &observed, const sl_ack &ack) override
	{
		note(observed);
		file_.hooks().on_ack(&sender_, &ack);
		return window();
	}

	std::uint32_t on_loss(const Observed &observed) override
	{
		return answer(file_.hooks().on_loss ? file_.hooks().on_loss : sl_halve, observed);
	}

	using CongestionControl::on_timeout;

	std::uint32_t on_timeout(const Observed &observed) override
	{
		return answer(file_.hooks().on_timeout ? file_.hooks().on_timeout : sl_leave_one_packet, observed);
	}

	Time gap() const override
	{
		return static_cast<Time>(sl_gap_ns(&sender_)) * NANOSECOND;
	}

      private:
	void note(const Observed &observed)
	{
		sender_.now_ns = static_cast<sl_u64>(observed.now / NANOSECOND);
		sender_.smoothed_rtt_ns = static_cast<sl_u64>(observed.smoothed_rtt / NANOSECOND);
		sender_.least_rtt_ns = static_cast<sl_u64>(observed.least_rtt / NANOSECOND);
		sender_.mss_bytes = observed.payload_bytes;
	}

	std::uint32_t answer(void (*hook)(sl_sender *), const Observed &observed)
	{
		note(observed);
		if (hook)
			hook(&sender_);
		return window();
	}

	std::uint32_t window()
	{
		sender_.cwnd_q16 = std::clamp<sl_u64>(sender_.cwnd_q16, SL_LEAST_CWND_Q16, largest_ * SL_Q16_ONE);
		return std::max(static_cast<std::uint32_t>(sender_.cwnd_q16 / SL_Q16_ONE), 1U);
	}

	const ControlFile &file_;
	const std::uint32_t largest_;
	sl_sender sender_ = {};
	alignas(8) std::array<std::byte, SL_STATE_MAX> state_ = {};
};

} // namespace sluice
