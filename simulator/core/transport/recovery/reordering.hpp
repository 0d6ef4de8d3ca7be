// SPDX-License-Identifier: Apache-2.0
// RACK's reordering window (RFC 8985, section 6.2), for a flow whose packets overtake each other.
// The window opens when a packet that left later arrives. A packet is lost only if it does not
// arrive within that window.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "transport/timeout/rtt_estimator.hpp"
#include "event/time.hpp"

namespace sluice
{

// The packet that left last among those that have arrived (step 2).
struct LastToLeave {
	std::uint32_t number = 0;
	Time left_at = -1;
	Time round_trip = 0;

	void on_arrival(std::uint32_t arrived, Time sent_at, Time now)
	{
		if (!left_after(arrived, sent_at))
			*this = {arrived, sent_at, now - sent_at};
	}

	// Among packets that left at one time, the number decides.
	bool left_after(std::uint32_t other, Time sent_at) const
	{
		return left_at != sent_at ? left_at > sent_at : number > other;
	}
};

class Reordering
{
      public:
	// A packet that left; `again`: not for the first time.
	struct Sent {
		std::uint32_t number;
		bool again;
		Time at;
	};

	void on_sent(const Sent &sent)
	{
		sent_.push_back(sent);
	}

	// Step 4. An ACK reported a needless retransmission: the window widens by one step, at
	// most once a round trip.
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

	// Step 5. `is_missing(sent)`: the packet has neither arrived nor left again. Calls
	// `lose(number)` for each packet that is lost now.
	template <class IsMissing, class Lose>
	void examine(const LastToLeave &arrived, const RttEstimator &rtt, Time now, IsMissing &&is_missing,
		     Lose &&lose)
	{
		Time allowed = arrived.round_trip + window(rtt);

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

	// The time at which the next packet counts as lost unless it arrives; NEVER if there is
	// none.
	Time due() const
	{
		return due_;
	}

	// After a timeout every packet is retransmitted.
	void forget()
	{
		sent_.clear();
		due_ = NEVER;
	}

      private:
	static constexpr unsigned MOST_STEPS = 255; // Linux's bound
	static constexpr unsigned RECOVERIES = 16;  // without a duplicate, until the window narrows

	Time window(const RttEstimator &rtt) const
	{
		return std::min(steps_ * (rtt.least() / 4), rtt.smoothed());
	}

	std::deque<Sent> sent_; // in the order of sending
	Time due_ = NEVER;
	unsigned steps_ = 1, recoveries_left_ = 0;
	std::uint32_t round_end_ = 0; // no further step until this packet is acknowledged
};

} // namespace sluice
