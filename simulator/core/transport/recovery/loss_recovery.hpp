// SPDX-License-Identifier: Apache-2.0
// What a connection does about marks and losses: the states of RFC 5681 and RFC 6675 as Linux has
// them. Which packets are lost, the detection says (loss_detection.hpp). How far the window
// falls, the window says (window.hpp).
//
//   Open       nothing to react to
//   Reducing   marks were echoed: the window falls until all packets then in flight are acknowledged
//   Recovery   packets are lost: the same, and they are retransmitted
//   Loss       the timeout came: everything is retransmitted, in slow start
#pragma once

#include <cstdint>
#include <memory>

#include "event/time.hpp"
#include "packet/packet.hpp"
#include "transport/recovery/loss_detection.hpp"
#include "transport/recovery/scoreboard.hpp"
#include "transport/settings.hpp"
#include "transport/timeout/alarm.hpp"
#include "transport/timeout/rtt_estimator.hpp"
#include "transport/window.hpp"

namespace sluice
{

class LossRecovery
{
      public:
	// What an ACK led to.
	struct Outcome {
		bool reached_target; // the window's reduction is complete with this ACK
		bool cut_for_marks;  // a reduction for marks began; CWR announces it
		bool spares_lost;    // the ACK releases new packets alone, because lost ones may only be late
	};

	LossRecovery(const TransportSettings &settings, Window &window, const RttEstimator &rtt);

	const Scoreboard &board() const
	{
		return board_;
	}

	// Whether the window falls along with the ACKs.
	bool is_reducing() const
	{
		return (state_ == State::Reducing && !settings_.tcp.cuts_at_once) || state_ == State::Recovery;
	}

	// Counts an ACK on the scoreboard. `assess` follows once the window has counted it, too.
	Delivery deliver(const Packet &ack)
	{
		return board_.deliver(ack);
	}

	Outcome assess(const Packet &ack, Delivery delivery, Time now);

	void on_sent(std::uint32_t number, bool again, Time now)
	{
		board_.on_sent(number, again);
		if (again || detection_->watches_new_packets())
			detection_->on_sent(number, again, now);
	}

	std::uint32_t take_lost()
	{
		return board_.take_lost();
	}

	// What to set the retransmission timer for, if the timeout itself is due at `timeout`.
	Alarm first_alarm(Time timeout, Time now) const
	{
		return detection_->first_alarm({AlarmKind::Timeout, timeout}, is_open(), now);
	}

	bool may_probe() const
	{
		return detection_->may_probe(is_open());
	}

	// The last packet in flight.
	std::uint32_t last_under_way() const
	{
		return board_.last_under_way();
	}

	std::uint32_t probe(bool may_send_new, Time now)
	{
		return detection_->probe(may_send_new, now);
	}

	bool awaits_overtaken() const
	{
		return detection_->awaits_overtaken();
	}

	// An overtaken packet has not come in time.
	void on_overdue(Time now);

	// The timeout came.
	void on_timeout(Time now);

      private:
	enum class State : std::uint8_t { Open, Reducing, Recovery, Loss };

	bool is_open() const
	{
		return state_ == State::Open || state_ == State::Reducing;
	}

	void undo();
	bool settle();
	bool react(bool marked, Time now)
	{
		return (marked || board_.lost()) && begin_reaction(marked, now);
	}

	bool begin_reaction(bool marked, Time now);
	bool is_new_congestion() const;

	const TransportSettings &settings_;
	Window &window_;
	Scoreboard board_;
	std::unique_ptr<LossDetection> detection_;
	const RttEstimator &rtt_;
	std::uint32_t high_ = 0;		    // next() when the reaction began
	std::uint32_t una_at_timeout_ = UINT32_MAX; // una() at the last timeout
	State state_ = State::Open;
	bool cut_for_loss_ = false; // the last cut was for losses, not for marks
	bool takes_marks_;
};

} // namespace sluice
