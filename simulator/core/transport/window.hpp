// SPDX-License-Identifier: Apache-2.0
// The congestion window of a sender, in packets, and the law that moves it: what dataplane/bpf/cc_ops.bpf.h is in the kernel.
#pragma once

#include <cstdint>
#include <memory>

#include "laws/control.h"
#include "transport/control/cubic.hpp"
#include "transport/flow_spec.hpp"
#include "transport/control/hystart.hpp"
#include "transport/timeout/round_trip.hpp"
#include "transport/settings.hpp"
#include "world/world.hpp"

namespace sluice
{

class Window
{
      public:
	Window(const TransportSettings &settings, const FlowSpec &spec);

	// Data packets begin to leave now, with number 0.
	void begin(Time now)
	{
		began_ = now;
		sl_window_begin(&window_, 0, 0, 0);
	}

	// Packets that may be under way.
	std::uint32_t packets() const
	{
		return cwnd_;
	}

	// An ACK tells of packets that arrived, the window of data may have ended with it: then the law is asked.
	void on_delivered(std::uint32_t packets, bool echo)
	{
		delivered_before_ = delivered_;
		delivered_ += packets;
		marked_ += echo ? packets : 0;
	}

	bool has_ended(std::uint32_t una, std::uint32_t next, Time now, const RoundTrip &round_trip,
		       sl_window_sum *sum);
	void ask_law(const sl_window_sum &sum, std::uint64_t acked_bytes, const RoundTrip &round_trip, World &world);

	// Marks were echoed, once a window: a reduction begins.
	void begin_cut();

	// Packets were lost. `reducing`: within a reduction, which then goes further down.
	void begin_recovery(bool reducing);

	// `fresh`: of a congestion event that has not been reacted to.
	void after_timeout(bool fresh, bool reducing);

	// Nothing had been lost: the window is what it was.
	void undo();

	// The window with an ACK that tells of `newly` packets, in a reduction …
	void reduce(std::uint32_t in_flight, std::uint32_t newly);

	// … at its end …
	void end_reduction()
	{
		cwnd_ = bounded(target_);
	}

	// … or outside of one. `limited`: the window was what kept the sender from sending more.
	void grow(std::uint32_t newly, bool limited, const RoundTrip &round_trip, Time now);

	void on_sent()
	{
		sent_since_cut_++;
	}

	// An ACK whose round trip was `rtt`: CUBIC's slow start may be over.
	void watch_slow_start(std::uint32_t una, std::uint32_t next, Time now, Time rtt, const RoundTrip &round_trip);

	bool in_slow_start() const
	{
		return cwnd_ < slow_start_threshold_;
	}

	sl_phase phase() const
	{
		return static_cast<sl_phase>(last_.phase);
	}

	// What the law said last.
	const sl_window_record &last() const
	{
		return last_;
	}

      private:
	void answer(sl_window_record &w, const RoundTrip &round_trip, World &world);
	std::uint32_t bounded(std::uint32_t packets) const;
	void grow_linearly(std::uint32_t newly);

	const TransportSettings &settings_;
	const FlowSpec &spec_;
	std::uint32_t cwnd_;
	std::uint32_t slow_start_threshold_ = UINT32_MAX;
	std::uint32_t acked_since_growth_ = 0;
	std::uint32_t delivered_ = 0;	     // running count of packets
	std::uint32_t delivered_before_ = 0; // the last ACK
	std::uint32_t marked_ = 0;	     // of those
	sl_window window_ = {};
	Time began_ = 0;		// this window
	std::uint64_t acked_bytes_ = 0; // of the flow when it began

	std::uint32_t cwnd_before_cut_ = 0;
	std::uint32_t threshold_before_cut_ = UINT32_MAX;
	std::uint32_t target_ = 0;
	std::uint32_t delivered_at_cut_ = 0;
	std::uint32_t sent_since_cut_ = 0;

	sl_window_record last_ = {};
	std::unique_ptr<sl_datcp_state> datcp_;
	std::unique_ptr<Cubic> cubic_;
	std::unique_ptr<HyStart> hystart_;
};

} // namespace sluice
