// SPDX-License-Identifier: Apache-2.0
// RACK's reordering window (RFC 8985, section 6.2), for a sender whose packets have been seen to overtake each other: a packet is
// lost only when one that left later has arrived, and it has not for a while longer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "transport/timeout/round_trip.hpp"
#include "event/time.hpp"

namespace sluice
{

// Of the packets that have arrived, the one that left last (step 2).
struct LastToLeave {
	std::uint32_t number = 0;
	Time left_at = -1;
	Time round_trip = 0;

	void on_arrival(std::uint32_t arrived, Time sent_at, Time now)
	{
		if (!left_after(arrived, sent_at))
			*this = {arrived, sent_at, now - sent_at};
	}

	// Packets that leave at once are told apart by their numbers.
	bool left_after(std::uint32_t other, Time sent_at) const
	{
		return left_at != sent_at ? left_at > sent_at : number > other;
	}
};

class Reordering
{
      public:
	// A packet that left. `again`: not for the first time.
	struct Sent {
		std::uint32_t number;
		bool again;
		Time at;
	};

	void on_sent(const Sent &sent)
	{
		sent_.push_back(sent);
	}

	// Step 4. An ACK told of a needless retransmission: a wider window, by one step for all that a round trip tells.
	void on_duplicate(std::uint32_t una, std::uint32_t next)
	{
		if (una < round_end_)
			return;
		round_end_ = next;
		steps_ = std::min(steps_ + 1, MOST_STEPS);
		recoveries_left_ = RECOVERIES;
	}

	void on_recovery_over()
	{
		if (recoveries_left_ && !--recoveries_left_)
			steps_ = 1;
	}

	// Step 5. `is_missing(sent)`: it has not arrived, nor left again; `lose(number)` for those that are lost now.
	template <class IsMissing, class Lose>
	void examine(const LastToLeave &arrived, const RoundTrip &round_trip, Time now, IsMissing &&is_missing,
		     Lose &&lose)
	{
		Time allowed = arrived.round_trip + window(round_trip);

		for (due_ = NEVER; !sent_.empty(); sent_.pop_front()) {
			const Sent &oldest = sent_.front();

			if (!is_missing(oldest))
				continue;
			if (!arrived.left_after(oldest.number, oldest.at))
				return;
			if (oldest.at + allowed > now) {
				due_ = oldest.at + allowed;
				return;
			}
			lose(oldest.number);
		}
	}

	// When the next packet will be lost, unless it arrives; or NEVER.
	Time due() const
	{
		return due_;
	}

	// After a timeout everything is sent again.
	void forget()
	{
		sent_.clear();
		due_ = NEVER;
	}

      private:
	static constexpr unsigned MOST_STEPS = 255; // as Linux bounds them
	static constexpr unsigned RECOVERIES = 16;  // without a duplicate until the window is narrow again

	Time window(const RoundTrip &round_trip) const
	{
		return std::min(steps_ * (round_trip.least() / 4), round_trip.smoothed());
	}

	std::deque<Sent> sent_; // in this order
	Time due_ = NEVER;
	unsigned steps_ = 1, recoveries_left_ = 0;
	std::uint32_t round_end_ = 0; // no further step before this one is acknowledged
};

} // namespace sluice
