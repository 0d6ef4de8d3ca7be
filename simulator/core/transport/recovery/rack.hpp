// SPDX-License-Identifier: Apache-2.0
// RACK-TLP (RFC 8985) where selective acknowledgements alone leave a loss to the timeout. Once a retransmission has arrived, what was
// sent before it and has not is lost (section 6.2); and a probe asks what became of a tail that nobody acknowledges (section 7).
// As long as the packets of a flow do not overtake each other, nothing waits for reordering; from then on reordering.hpp decides.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/timeout/round_trip.hpp"
#include "event/time.hpp"

namespace sluice
{

class Rack
{
      public:
	// A packet leaves again, or as a probe. `next`: the first that has never left.
	void on_sent(std::uint32_t number, std::uint32_t next, Time now)
	{
		sent_.push_back({number, next, now});
	}

	// A packet that left at `sent_at` has arrived: `lose(number)` for those that on_sent was told of and that left before.
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

	// After a timeout everything is sent again.
	void forget()
	{
		sent_.clear();
		first_ = 0;
	}

	// Packets before this one that left once, and have not arrived, are lost.
	std::uint32_t lost_before() const
	{
		return lost_before_;
	}

	// When to probe, from an ACK or the first packet on, if no timeout comes first, in whose place a probe goes, too: two
	// round trips, and the longest delay of an ACK when there is but one packet to acknowledge.
	static Time probe_after(const RoundTrip &round_trip, std::uint32_t in_flight, Time ack_delay)
	{
		return 2 * round_trip.smoothed() + (in_flight == 1 ? ack_delay : 0);
	}

	// Until all before this one is acknowledged, there is no second probe.
	std::uint32_t probed_before = 0;

      private:
	struct Sent {
		std::uint32_t number, next;
		Time at;
	};

	std::vector<Sent> sent_; // in the order of sending
	std::size_t first_ = 0;	 // that has not been passed
	std::uint32_t lost_before_ = 0;
};

} // namespace sluice
