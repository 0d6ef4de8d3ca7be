// SPDX-License-Identifier: Apache-2.0
// The sending end of a TCP connection that carries one flow, in packets. It opens the connection,
// counts ACKs, sends packets and keeps the retransmission timer. Four policies decide the rest:
//
//   Window, with its CongestionControl   how many packets may be in flight (window.hpp, control/)
//   LossRecovery                         which packets are lost, and the reaction to it (recovery/)
//   TimeoutPolicy                        when to give up waiting for an ACK (timeout/)
//   Pacing                               when the next packet leaves (pacing/)
//
// policies.cpp composes them.
#pragma once

#include <cstdint>
#include <memory>

#include "event/time.hpp"
#include "event/timer.hpp"
#include "packet/packet.hpp"
#include "packet/telemetry.hpp"
#include "port/port.hpp"
#include "transport/flow_spec.hpp"
#include "transport/pacing/pacing.hpp"
#include "transport/recovery/loss_recovery.hpp"
#include "transport/settings.hpp"
#include "transport/timeout/alarm.hpp"
#include "transport/timeout/rtt_estimator.hpp"
#include "transport/timeout/timeout_policy.hpp"
#include "transport/window.hpp"
#include "world/world.hpp"

namespace sluice
{

class Flow;

class Connection
{
      public:
	Connection(World &world, const TransportSettings &settings, Flow &flow, Port &port);

	// `opens`: a SYN and its SYN-ACK precede the data.
	void start(bool opens);
	void on_syn_ack(const Packet &packet);
	void on_ack(const Packet &ack);
	void on_grant(const Packet &packet);
	void on_retransmission_timer();

	void on_pace_timer()
	{
		pacing_->on_timer(*this);
	}

	// Stops sending. What has not been sent stays unsent.
	void stop();

	// Gives the flow up.
	void kill()
	{
		killed_ = true;
		stop();
	}

	// All data is acknowledged, or the connection was stopped.
	bool is_over() const
	{
		return stopped_ || board().una() == total_;
	}

	// The flow ends when all data is acknowledged, not when it has arrived.
	bool ends_with_ack() const
	{
		return settings_.tcp.ends_with_ack;
	}

	bool was_killed() const
	{
		return killed_;
	}

	// By a time that may lie in the window that has just ended, but not before it.
	std::uint32_t retransmissions(Time by) const
	{
		return count_by(by, retransmissions_, false);
	}

	std::uint32_t timeouts(Time by) const
	{
		return count_by(by, timeouts_, true);
	}

	std::uint64_t acked_bytes() const;

	const Window &window() const
	{
		return window_;
	}

	// The flow is the next one of a connection that had carried another.
	void resume(const Window::Kept &kept)
	{
		window_.resume(kept);
	}

	const RttEstimator &rtt() const
	{
		return rtt_;
	}

	// For the pacing policy.

	Time now() const
	{
		return world_.now();
	}

	bool window_is_open() const
	{
		if (settings_.tcp.bounds_from_first)
			return board().next_to_send() - board().una() < window_.packets();
		return board().in_flight() < window_.packets();
	}

	// Lost packets, or new ones within the largest window; nothing once the connection is
	// stopped.
	bool has_to_send() const
	{
		return !stopped_ && (sends_lost() || may_send_new());
	}

	// The time between two packets at least.
	Time gap() const
	{
		return window_.gap();
	}

	void send_one();

	// What send_one would send.
	std::uint32_t next_to_send() const
	{
		return sends_lost() ? board().next_to_send() : board().next();
	}

	std::uint32_t una() const
	{
		return board().una();
	}

	// The first packet that has never left.
	std::uint32_t next_new() const
	{
		return board().next();
	}

	// Packets that have left and that no ACK has passed.
	std::uint32_t packets_out() const
	{
		return board().next() - board().una();
	}

	// The host's own port sends what it may have sent by now.
	void catch_up()
	{
		port_.catch_up();
	}

	// When the host's own port sends its next packet.
	Time next_departure() const
	{
		return port_.next_from_host();
	}

	// Sends a packet without data.
	SLUICE_SEAM void send_header(PacketKind kind);

	// For a transport of messages (messages/message.hpp), which keeps its own account of what has left.

	std::uint32_t total() const
	{
		return total_;
	}

	// `left`: packets of the message that had not left before, for a port that serves the shortest first.
	SLUICE_SEAM void send_piece(std::uint32_t number, std::uint8_t tag, std::uint32_t left, bool again);

	void count_timeout()
	{
		count_repeat(timeouts_, true);
	}

      private:
	const Scoreboard &board() const
	{
		return recovery_.board();
	}

	bool sends_lost() const
	{
		return board().lost() && !spares_lost_;
	}

	bool may_send_new() const
	{
		return board().next() < total_ && board().next() - board().una() < settings_.window.largest;
	}

	void establish();
	void release();
	void sample_round_trip(const Packet &answer);
	void grow(std::uint32_t newly, bool marked, bool may_grow);
	void follow(const Packet &ack, std::uint32_t newly, std::uint32_t una_before, bool limited);
	void end_window(const Progress &progress);
	void send(std::uint32_t number, bool again);
	void send_syn();
	void transmit(Packet *packet);
	std::uint32_t payload_of(std::uint32_t number) const;
	std::uint32_t last_that_may_leave() const;
	SLUICE_SEAM void count_repeat(std::uint32_t &counter, bool is_timeout);
	std::uint32_t count_by(Time time, std::uint32_t count, bool of_timeouts) const;
	void restart_timer();
	void arm_timer();
	void set_alarm(Alarm alarm);
	void on_timeout();
	void probe();

	World &world_;
	const TransportSettings &settings_;
	Flow &flow_;
	Port &port_;

	const std::uint32_t total_; // packets of the flow
	std::uint32_t retransmissions_ = 0;
	std::uint32_t timeouts_ = 0;
	bool connected_ = false;
	bool stopped_ = false;
	bool killed_ = false;
	bool spares_lost_ = false;	       // for now, only new packets leave
	bool echoed_before_ = false;	       // the ACK before this one echoed a mark
	bool announces_reduction_ = false;     // CWR goes with the next new packet
	AlarmKind alarm_ = AlarmKind::Timeout; // what the timer is set for
	Time armed_at_ = 0;		       // when it was set
	Time burst_at_ = NEVER;		       // when packets left last …
	std::uint32_t burst_last_ = 0;	       // … and the last one that might

	Window window_;
	RttEstimator rtt_;
	TimeoutPolicy timeout_;
	LossRecovery recovery_;
	std::unique_ptr<Pacing> pacing_;
	std::unique_ptr<Telemetry> telemetry_; // only for a control that reads it
	std::uint32_t round_end_ = 0;	       // of a window that its control owns
	Timer timer_;
};

} // namespace sluice
