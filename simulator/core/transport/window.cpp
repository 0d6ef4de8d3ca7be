// SPDX-License-Identifier: Apache-2.0
#include "transport/window.hpp"

#include <algorithm>

#include "laws/reduction.h"

namespace sluice
{

Window::Window(const TransportSettings &settings, const FlowSpec &spec)
    : settings_(settings), spec_(spec), cwnd_(std::min(settings.initial_window, settings.max_window))
{
	last_.alpha_q20 = SL_DCTCP_ALPHA_ONE;
	last_.penalty_q20 = SL_DCTCP_ALPHA_ONE;
	last_.urgency_q16 = SL_UCP_ONE_Q16;
	if (settings.control == Control::Datcp)
		datcp_ = std::make_unique<sl_datcp_state>();
	if (settings.control == Control::Cubic) {
		cubic_ = std::make_unique<Cubic>();
		hystart_ = std::make_unique<HyStart>();
	}
}

bool Window::has_ended(std::uint32_t una, std::uint32_t next, Time now, const RoundTrip &round_trip,
		       sl_window_sum *sum)
{
	Time srtt = round_trip.smoothed();

	return now - began_ >= srtt - srtt / 4 && sl_window_ended(&window_, una, next, delivered_, marked_, sum);
}

void Window::ask_law(const sl_window_sum &sum, std::uint64_t acked_bytes, const RoundTrip &round_trip, World &world)
{
	Time now = world.now();
	sl_window_record w = {};

	w.at_ns = static_cast<sl_u64>(now / NANOSECOND);
	w.took_us = static_cast<sl_u64>(std::max<Time>((now - began_) / MICROSECOND, 1));
	w.acked_bytes = acked_bytes - acked_bytes_;
	w.acked = sum.acked;
	w.marked = sum.marked;
	w.cwnd = cwnd_;
	w.rtt_us = round_trip.smoothed_us();
	w.mss_bytes = settings_.payload_bytes;
	w.flags = in_slow_start() ? SL_WINDOW_SLOW_START : 0;
	w.alpha_q20 = sl_dctcp_alpha(last_.alpha_q20, sum.acked, sum.marked);
	w.urgency_q16 = SL_UCP_ONE_Q16;
	w.phase = last_.phase;
	w.cuts = last_.cuts;
	w.cut_from = cwnd_before_cut_;
	w.cut_to = target_;
	w.cut_penalty_q20 = last_.penalty_q20;
	w.rate_bytes_per_s = sl_rate_bytes_per_s(w.acked_bytes, w.took_us);
	if (!spec_.until && (spec_.size_known || spec_.deadline)) {
		w.flags |= SL_WINDOW_HAS_SIZE;
		w.remaining_bytes = sl_remaining_bytes(spec_.bytes, acked_bytes);
	}
	if (spec_.is_timed(now, settings_.forgets_late)) {
		w.flags |= SL_WINDOW_HAS_DEADLINE;
		w.left_ns = static_cast<sl_u64>(std::max<Time>(spec_.deadline - now, 0) / NANOSECOND);
		w.elapsed_ns = static_cast<sl_u64>((now - spec_.began) / NANOSECOND);
	}
	answer(w, round_trip, world);
	last_ = w;
	began_ = now;
	acked_bytes_ = acked_bytes;
}

void Window::answer(sl_window_record &w, const RoundTrip &round_trip, World &world)
{
	switch (settings_.control) {
	case Control::Ucp:
		return sl_control_ucp(&w);
	case Control::D2tcp:
		return sl_control_d2tcp(&w);
	case Control::Mcp:
		return sl_control_mcp(&w);
	case Control::Datcp: {
		sl_datcp_goal goal = {
			.timed = spec_.deadline && !spec_.until,
			.may_quench = spec_.on_quench != SL_QUENCH_NEVER,
			.importance_milli = spec_.importance_milli,
			.importance_share_milli = spec_.importance_share_milli,
		};

		w.random = world.random.next32();
		return sl_control_datcp(datcp_.get(), &goal, spec_.on_quench, round_trip.least_us(), &w);
	}
	case Control::Dctcp:
		return sl_control_dctcp(&w);
	case Control::Reno:
	case Control::Cubic:
	case Control::Pfabric:
	case Control::D3:
		w.penalty_q20 = SL_DCTCP_ALPHA_ONE; // half
	}
}

std::uint32_t Window::bounded(std::uint32_t packets) const
{
	return std::min({packets, settings_.max_window, last_.bound ? last_.bound : UINT32_MAX});
}

void Window::begin_cut()
{
	cwnd_before_cut_ = cwnd_;
	threshold_before_cut_ = slow_start_threshold_;
	target_ = cubic_ ? cubic_->after_loss(cwnd_) : sl_dctcp_cwnd(cwnd_, last_.penalty_q20);
	slow_start_threshold_ = target_;
	delivered_at_cut_ = delivered_before_;
	sent_since_cut_ = 0;
	acked_since_growth_ = 0;
	last_.cuts++;
}

void Window::begin_recovery(bool reducing)
{
	if (!reducing)
		begin_cut();
	if (!cubic_)
		target_ = std::min(target_, sl_loss_cwnd(cwnd_before_cut_));
	slow_start_threshold_ = target_;
}

void Window::after_timeout(bool fresh, bool reducing)
{
	if (fresh || reducing)
		begin_recovery(!fresh);
	cwnd_ = 1;
	acked_since_growth_ = 0;
	if (hystart_)
		hystart_->forget();
}

void Window::undo()
{
	cwnd_ = bounded(std::max(cwnd_, cwnd_before_cut_));
	slow_start_threshold_ = std::max(slow_start_threshold_, threshold_before_cut_);
}

void Window::reduce(std::uint32_t in_flight, std::uint32_t newly)
{
	sl_reduction r = {
		.cwnd_before = cwnd_before_cut_,
		.target = target_,
		.delivered = delivered_ - delivered_at_cut_,
		.newly_delivered = newly,
		.sent = sent_since_cut_,
	};

	cwnd_ = bounded(sl_reduced_cwnd(&r, in_flight));
}

void Window::watch_slow_start(std::uint32_t una, std::uint32_t next, Time now, Time rtt, const RoundTrip &round_trip)
{
	if (!hystart_ || !in_slow_start())
		return;
	HyStart::Ack ack = {una, next, now, rtt, round_trip.smoothed(), cwnd_, settings_.payload_bytes};

	if (hystart_->is_enough(ack))
		slow_start_threshold_ = cwnd_;
}

void Window::grow(std::uint32_t newly, bool limited, const RoundTrip &round_trip, Time now)
{
	if (!newly || !limited)
		return;
	if (in_slow_start()) {
		std::uint32_t grown = std::min(cwnd_ + newly, slow_start_threshold_);

		newly -= grown - cwnd_;
		cwnd_ = grown;
	}
	if (newly && cubic_) {
		double target = cubic_->target(cwnd_, newly, now, round_trip.smoothed());

		acked_since_growth_ += newly;
		if (acked_since_growth_ * (target - cwnd_) >= cwnd_) {
			acked_since_growth_ = 0;
			cwnd_++;
		}
	} else if (newly) {
		grow_linearly(newly);
	}
	cwnd_ = bounded(cwnd_);
}

// A packet for each window acknowledged.
void Window::grow_linearly(std::uint32_t newly)
{
	acked_since_growth_ += newly;
	if (acked_since_growth_ >= cwnd_) {
		acked_since_growth_ -= cwnd_;
		cwnd_++;
	}
}

} // namespace sluice
