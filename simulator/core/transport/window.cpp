// SPDX-License-Identifier: Apache-2.0
#include "transport/window.hpp"

#include <algorithm>
#include <utility>

#include "laws/reduction.h"

namespace sluice
{

namespace
{

constexpr unsigned FRACTION_BITS = 20;

} // namespace

Window::Window(const TransportSettings &settings, std::unique_ptr<CongestionControl> control)
    : settings_(settings), control_(std::move(control)), owned_(control_->owns_window()),
      cwnd_(std::min(settings.window.initial, settings.window.largest))
{
	last_.alpha_q20 = settings.tcp.first_alpha_q20;
	last_.penalty_q20 = settings.tcp.first_alpha_q20;
	last_.urgency_q16 = SL_UCP_ONE_Q16;
	control_->grow_by(settings.window.growth);
}

void Window::begin(const RttEstimator &rtt, Time now)
{
	began_ = now;
	sl_window_begin(&window_, 0, 0, 0);
	cwnd_ = control_->on_start(observed(rtt, now), cwnd_);
}

Observed Window::observed(const RttEstimator &rtt, Time now) const
{
	return {now, rtt.smoothed(), rtt.smoothed() ? rtt.least() : 0, settings_.segment.payload_bytes};
}

std::optional<sl_window_sum> Window::ended(const Progress &progress, const RttEstimator &rtt)
{
	Time smoothed = rtt.smoothed();
	sl_window_sum sum = {};

	bool by_acks = settings_.tcp.alpha_by_acks;
	bool is_early = progress.now - began_ < smoothed - smoothed / 4;

	if ((is_early && !by_acks) ||
	    !sl_window_ended(&window_, progress.una - by_acks, progress.next, counted_, marked_, &sum))
		return std::nullopt;
	return sum;
}

void Window::ask_law(const sl_window_sum &sum, const FlowSpec &flow, std::uint64_t acked_bytes,
		     const RttEstimator &rtt, Time now, Random &random)
{
	sl_window_record record = record_of(sum, acked_bytes, rtt, now);

	add_goal(record, flow, acked_bytes, now);
	control_->on_window_end(record, observed(rtt, now), random);
	last_ = record;
	began_ = now;
	acked_bytes_ = acked_bytes;
	trace(TraceEvent::Window);
}

// What happened in the window of data.
sl_window_record Window::record_of(const sl_window_sum &sum, std::uint64_t acked_bytes, const RttEstimator &rtt,
				   Time now) const
{
	sl_window_record w = {};

	w.at_ns = static_cast<sl_u64>(now / NANOSECOND);
	w.took_us = static_cast<sl_u64>(std::max<Time>((now - began_) / MICROSECOND, 1));
	w.acked_bytes = acked_bytes - acked_bytes_;
	w.acked = sum.acked;
	w.marked = sum.marked;
	w.cwnd = cwnd_;
	w.rtt_us = rtt.smoothed_us();
	w.mss_bytes = settings_.segment.payload_bytes;
	w.flags = in_slow_start() ? SL_WINDOW_SLOW_START : 0;
	w.alpha_q20 = sl_dctcp_alpha(last_.alpha_q20, sum.acked, sum.marked);
	w.urgency_q16 = SL_UCP_ONE_Q16;
	w.phase = last_.phase;
	w.cuts = cuts_;
	w.cut_from = cwnd_before_cut_;
	w.cut_to = target_;
	w.cut_penalty_q20 = last_.penalty_q20;
	w.growth = settings_.window.growth;
	w.rate_bytes_per_s = sl_rate_bytes_per_s(w.acked_bytes, w.took_us);
	return w;
}

// What the flow's program has declared: its size and its deadline.
void Window::add_goal(sl_window_record &record, const FlowSpec &flow, std::uint64_t acked_bytes, Time now) const
{
	if (!flow.until && (flow.size_known || flow.deadline)) {
		record.flags |= SL_WINDOW_HAS_SIZE;
		record.remaining_bytes = sl_remaining_bytes(flow.bytes, acked_bytes);
	}
	if (flow.is_timed(now, settings_.forgets_late)) {
		record.flags |= SL_WINDOW_HAS_DEADLINE;
		record.left_ns = static_cast<sl_u64>(std::max<Time>(flow.deadline - now, 0) / NANOSECOND);
		record.elapsed_ns = static_cast<sl_u64>((now - flow.began) / NANOSECOND);
	}
}

std::uint32_t Window::bounded(std::uint32_t packets) const
{
	return std::min({packets, settings_.window.largest, last_.bound ? last_.bound : UINT32_MAX});
}

void Window::begin_cut()
{
	cwnd_before_cut_ = cwnd_;
	threshold_before_cut_ = slow_start_threshold_;
	target_ = control_->after_marks(cwnd_, last_.penalty_q20);
	cut_for_marks_ = true;
	if (settings_.tcp.keeps_fractions)
		cut_exactly();
	slow_start_threshold_ = std::max(target_, SL_MIN_CWND);
	delivered_at_cut_ = delivered_before_;
	sent_since_cut_ = 0;
	control_->on_cut();
	cuts_++;
	if (settings_.tcp.cuts_at_once)
		cwnd_ = bounded(target_);
}

// The cut is made in fractions of a packet. Only whole packets count.
void Window::cut_exactly()
{
	std::uint64_t from_q20 = (static_cast<std::uint64_t>(cwnd_) << FRACTION_BITS) + fraction_q20_;
	std::uint64_t to_q20 = from_q20 - (from_q20 * last_.penalty_q20 >> (FRACTION_BITS + 1));

	to_q20 = std::max<std::uint64_t>(to_q20, 1ULL << FRACTION_BITS);
	target_ = static_cast<std::uint32_t>(to_q20 >> FRACTION_BITS);
	fraction_q20_ = to_q20 & ((1U << FRACTION_BITS) - 1);
}

void Window::begin_recovery(bool reducing, const RttEstimator &rtt, Time now)
{
	if (owned_)
		cwnd_ = control_->on_loss(observed(rtt, now));
	else
		begin_losses(reducing);
}

void Window::begin_losses(bool reducing)
{
	if (!reducing)
		begin_cut();
	cut_for_marks_ = false;
	target_ = control_->after_losses(cwnd_before_cut_, target_);
	slow_start_threshold_ = target_;
}

void Window::after_timeout(bool fresh, bool reducing, const RttEstimator &rtt, Time now)
{
	if (owned_) {
		cwnd_ = control_->on_timeout(observed(rtt, now));
		return;
	}
	bool spared = settings_.tcp.timeout_spares_threshold && cut_for_marks_;

	if ((fresh || reducing) && !spared)
		begin_losses(!fresh);
	cwnd_ = 1;
	fraction_q20_ = 0;
	control_->on_timeout();
}

void Window::undo()
{
	if (owned_)
		return;
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

void Window::watch_slow_start(const Progress &progress, Time rtt, const RttEstimator &estimator)
{
	if (!in_slow_start())
		return;
	SlowStartAck ack = {progress.una,
			    progress.next,
			    progress.now,
			    rtt,
			    estimator.smoothed(),
			    cwnd_,
			    settings_.segment.payload_bytes};

	if (control_->ends_slow_start(ack))
		slow_start_threshold_ = cwnd_;
}

void Window::grow(std::uint32_t newly, bool limited, const RttEstimator &rtt, Time now)
{
	if (!newly || !limited)
		return;
	if (in_slow_start()) {
		std::uint32_t grown = std::min(cwnd_ + newly, slow_start_threshold_);

		newly -= grown - cwnd_;
		cwnd_ = grown;
	}
	if (newly)
		cwnd_ += control_->growth(cwnd_ + (fraction_q20_ ? 1 : 0), newly, now, rtt.smoothed());
	cwnd_ = bounded(cwnd_);
}

} // namespace sluice
