// SPDX-License-Identifier: Apache-2.0
// RACK (RFC 8985, section 6.2) for a flow whose packets do not overtake each other. Once a
// retransmission has arrived, every missing packet that was sent before it is lost. Without RACK
// these losses would wait for the timeout.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "event/time.hpp"

namespace sluice
{

class Rack
{
      public:
	// A packet leaves again, or as a probe. `next`: the first packet that has never left.
	void on_sent(std::uint32_t number, std::uint32_t next, Time now)
	{
		sent_.push_back({number, next, now});
	}

	// A packet that left at `sent_at` has arrived. Calls `lose(number)` for each packet of
	// on_sent that left before it.
	template <class Lose> void on_arrival(Time sent_at, Lose &&lose)
	{
		while (first_ < sent_.size() && sent_[first_].at < sent_at) {
			lost_before_ = std::max(lost_before_, sent_[first_].next);
			lose(sent_[first_++].number);
		}
		if (first_ < sent_.size()) {
			if (sent_[first_].at == sent_at)
				lost_before_ = std::max(lost_before_, sent_[first_].next);
			return;
		}
		forget();
	}

	// After a timeout every packet is retransmitted.
	void forget()
	{
		sent_.clear();
		first_ = 0;
	}

	// Packets before this number that left once and have not arrived are lost.
	std::uint32_t lost_before() const
	{
		return lost_before_;
	}

      private:
	struct Sent {
		std::uint32_t number, next;
		Time at;
	};

	std::vector<Sent> sent_;  // in the order of sending
	std::uint32_t first_ = 0; // the first that no later arrival has passed
	std::uint32_t lost_before_ = 0;
};

} // namespace sluice
