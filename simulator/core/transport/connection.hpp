// SPDX-License-Identifier: Apache-2.0
// The sending side of TCP, in packets: selective acknowledgement, recovery, retransmission timeouts, and a window that the
// congestion control moves (window.hpp). The course of a reduction is the kernel's (laws/reduction.h).
#pragma once

#include <cstdint>
#include <memory>

#include "transport/recovery/eifel.hpp"
#include "transport/flow_spec.hpp"
#include "port/port.hpp"
#include "transport/recovery/rack.hpp"
#include "transport/recovery/reordering.hpp"
#include "transport/timeout/round_trip.hpp"
#include "transport/recovery/scoreboard.hpp"
#include "transport/settings.hpp"
#include "transport/window.hpp"
#include "world/world.hpp"

namespace sluice
{

class Flow;

// D3's sender: a rate in place of a window.
struct Pacer {
	Pacer(World &world, Flow &flow) : timer(world.timers, Happening::Pace, flow)
	{
	}

	RateRequest request;
	double bps = 0;
	Time sent_at = -SECOND; // the last packet
	Timer timer;
};

class Sender
{
      public:
	Sender(World &world, const TransportSettings &settings, Flow &flow, Port &port);

	void start();
	void on_syn_ack(const Packet &packet);
	void on_ack(const Packet &packet);
	void on_timer();

	// D3: the ports have answered; the time between two packets is over.
	void on_grant(const Packet &packet);
	void on_pace();

	// Sends nothing any more; what it has not sent stays unsent.
	void stop();

	bool is_over() const
	{
		return stopped_ || una_ == total_;
	}

	bool was_killed() const
	{
		return window_.phase() == SL_KILLED;
	}

	std::uint32_t retransmissions() const
	{
		return retransmissions_;
	}

	std::uint32_t timeouts() const
	{
		return timeouts_;
	}

	std::uint64_t acked_bytes() const;

	// Of D3, else nullptr.
	Pacer *pacer()
	{
		return pacer_.get();
	}

	const Window &window() const
	{
		return window_;
	}

	const RoundTrip &round_trip() const
	{
		return round_trip_;
	}

      private:
	enum class State : std::uint8_t { Open, Reducing, Recovery, Loss };
	enum class Awaited : std::uint8_t { Timeout, Probe, Overdue };

	void begin();
	std::uint32_t deliver(const Packet &ack);
	std::uint32_t deliver_one(std::uint32_t number);
	void advance(std::uint32_t next_expected);
	bool was_overtaken(std::uint32_t number) const;
	void begin_reordering();
	void reconsider(const Packet &ack, bool advances);
	void detect_losses(const Packet &ack);
	void lose_overdue();
	bool awaits_overtaken() const;
	void lose_all();
	void lose(std::uint32_t number);
	void undo();
	bool is_new_congestion() const;
	bool settle_state();
	void react(bool marked);
	void end_window();
	void send_allowed();
	bool has_to_send() const;
	void send_one();
	void pace();
	void ask_for_rate();
	double wanted_bps() const;
	void retransmit_lost();
	void send(std::uint32_t number, bool again);
	void send_bare();
	bool is_starved() const;
	void answer_of_probe();
	void stamp(Packet *packet);
	std::uint8_t tag_of(std::uint32_t number) const;
	std::uint32_t urgency_q16() const;
	void restart_timer();
	void arm_timer();
	void on_resent(std::uint32_t number);
	bool may_probe() const;
	void probe();
	void on_overdue();
	void on_timeout();

	World &world_;
	const TransportSettings &settings_;
	Flow &flow_;
	Port &port_;

	std::uint32_t total_; // packets of the flow
	std::uint32_t una_ = 0;
	std::uint32_t next_ = 0;
	std::uint32_t in_flight_ = 0;
	std::uint32_t lost_ = 0;	      // not sent again yet
	std::uint32_t next_to_examine_ = 0;   // packets before this have been looked at for losses
	std::uint32_t next_to_resend_ = 0;    // no lost packet before this
	std::uint32_t highest_delivered_ = 0; // plus one
	std::uint32_t high_ = 0;	      // next_ when the reduction, recovery or loss began
	State state_ = State::Open;
	Awaited awaited_ = Awaited::Timeout; // what the timer is set for
	bool cut_for_loss_ = false;	     // and not for marks: the last one
	bool connected_ = false;
	bool stopped_ = false;
	bool announce_reduction_ = false; // CWR goes with the next new packet
	std::uint32_t retransmissions_ = 0;
	std::uint32_t timeouts_ = 0;
	std::uint32_t timeouts_in_a_row_ = 0;	    // without an ACK
	std::uint32_t una_at_timeout_ = UINT32_MAX; // at the last one

	Window window_;
	RoundTrip round_trip_;
	Scoreboard scoreboard_;
	Timer timer_;
	std::unique_ptr<Pacer> pacer_;
	std::unique_ptr<Rack> rack_;
	LastToLeave last_to_leave_;
	std::unique_ptr<Reordering> reordering_; // since packets have overtaken each other
	Eifel eifel_;
};

} // namespace sluice
