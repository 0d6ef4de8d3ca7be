// SPDX-License-Identifier: Apache-2.0
// The congestion window of a connection, in packets: slow start, growth, reductions, and the
// record of each window of data that the control's law answers. It is what
// dataplane/bpf/cc_ops.bpf.h is in the kernel.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "event/time.hpp"
#include "laws/control.h"
#include "transport/control/congestion_control.hpp"
#include "transport/control/observed.hpp"
#include "transport/flow_spec.hpp"
#include "transport/recovery/scoreboard.hpp"
#include "transport/settings.hpp"
#include "transport/timeout/rtt_estimator.hpp"
#include "world/random.hpp"
#include "world/trace.hpp"

namespace sluice
{

// How far a connection has come.
struct Progress {
	std::uint32_t una;  // the first unacknowledged packet
	std::uint32_t next; // the next packet to send
	Time now;
};

class Window
{
      public:
	Window(const TransportSettings &settings, std::unique_ptr<CongestionControl> control);

	// Packet 0 leaves now.
	void begin(const RttEstimator &rtt, Time now);

	// How many packets may be in flight.
	std::uint32_t packets() const
	{
		return cwnd_;
	}

	// Nothing but the control changes the window (laws/hooks.h).
	bool is_owned() const
	{
		return owned_;
	}

	// A window that is owned, after an ACK.
	void follow(const sl_ack &ack, const RttEstimator &rtt, Time now)
	{
		cwnd_ = control_->on_ack(observed(rtt, now), ack);
	}

	// The time between two packets at least.
	Time gap() const
	{
		return control_->gap();
	}

	// An ACK whose round trip was `rtt` came: the control may end slow start.
	void watch_slow_start(const Progress &progress, Time rtt, const RttEstimator &estimator);

	// An ACK reports the arrival of packets.
	void on_delivered(const Delivery &delivery, bool echo)
	{
		std::uint32_t counts = settings_.tcp.alpha_by_acks ? std::max(delivery.advance, 1U) : delivery.newly;

		delivered_before_ = delivered_;
		delivered_ += delivery.newly;
		counted_ += counts;
		marked_ += echo ? counts : 0;
	}

	// The sum of the window of data that has ended with the last ACK, if one has. `ask_law`
	// follows.
	std::optional<sl_window_sum> ended(const Progress &progress, const RttEstimator &rtt);
	void ask_law(const sl_window_sum &sum, const FlowSpec &flow, std::uint64_t acked_bytes,
		     const RttEstimator &rtt, Time now, Random &random);

	// Marks were echoed: a reduction begins. At most once a window.
	void begin_cut();

	// Packets were lost. `reducing`: during a reduction, which then goes further down.
	void begin_recovery(bool reducing, const RttEstimator &rtt, Time now);

	// `fresh`: the timeout is a congestion event to which there was no reaction yet.
	void after_timeout(bool fresh, bool reducing, const RttEstimator &rtt, Time now);

	// Nothing had been lost: the window is as large as before the reduction.
	void undo();

	// An ACK of `newly` packets came during a reduction.
	void reduce(std::uint32_t in_flight, std::uint32_t newly);

	// The reduction is complete.
	void end_reduction()
	{
		if (!owned_)
			cwnd_ = bounded(target_);
	}

	// A window of data has ended, or the window was cut. Does nothing unless the flow is traced.
	std::function<void(TraceEvent)> trace = [](TraceEvent) {};

	// What the next flow of the same connection begins with.
	struct Kept {
		std::uint32_t alpha_q20;
		std::uint32_t slow_start_threshold;
		bool cut_for_marks;
		std::uint32_t counted; // packets for alpha since a window of data ended
		std::uint32_t marked;  // of `counted`
	};

	Kept kept() const
	{
		return {last_.alpha_q20, slow_start_threshold_, cut_for_marks_, counted_ - window_.acked,
			marked_ - window_.marked};
	}

	void resume(const Kept &kept)
	{
		last_.alpha_q20 = last_.penalty_q20 = kept.alpha_q20;
		slow_start_threshold_ = kept.slow_start_threshold;
		cut_for_marks_ = kept.cut_for_marks;
		counted_ = kept.counted;
		marked_ = kept.marked;
	}

	// An ACK of `newly` packets came outside of a reduction. `limited`: only the window kept
	// the sender from sending more.
	void grow(std::uint32_t newly, bool limited, const RttEstimator &rtt, Time now);

	void on_sent()
	{
		sent_since_cut_++;
	}

	bool in_slow_start() const
	{
		return cwnd_ < slow_start_threshold_;
	}

	std::uint32_t slow_start_threshold() const
	{
		return slow_start_threshold_;
	}

	sl_phase phase() const
	{
		return static_cast<sl_phase>(last_.phase);
	}

	// The record of the last window of data that ended.
	const sl_window_record &last() const
	{
		return last_;
	}

      private:
	Observed observed(const RttEstimator &rtt, Time now) const;
	sl_window_record record_of(const sl_window_sum &sum, std::uint64_t acked_bytes, const RttEstimator &rtt,
				   Time now) const;
	void add_goal(sl_window_record &record, const FlowSpec &flow, std::uint64_t acked_bytes, Time now) const;
	std::uint32_t bounded(std::uint32_t packets) const;
	void begin_losses(bool reducing);
	void cut_exactly();

	const TransportSettings &settings_;
	std::unique_ptr<CongestionControl> control_;
	const bool owned_;
	std::uint32_t cwnd_;
	std::uint32_t fraction_q20_ = 0; // of a packet, beyond `cwnd_`
	std::uint32_t slow_start_threshold_ = UINT32_MAX;
	std::uint32_t delivered_ = 0;	     // running count of packets
	std::uint32_t delivered_before_ = 0; // the last ACK
	std::uint32_t counted_ = 0;	     // running count of packets for alpha
	std::uint32_t marked_ = 0;	     // of `counted_`
	sl_window window_ = {};
	Time began_ = 0;		// when this window of data began
	std::uint64_t acked_bytes_ = 0; // of the flow, when this window of data began

	std::uint32_t cwnd_before_cut_ = 0;
	std::uint32_t threshold_before_cut_ = UINT32_MAX;
	std::uint32_t target_ = 0;
	std::uint32_t delivered_at_cut_ = 0;
	std::uint32_t sent_since_cut_ = 0;
	std::uint32_t cuts_ = 0;
	bool cut_for_marks_ = false; // the last cut

	sl_window_record last_ = {};
};

} // namespace sluice
