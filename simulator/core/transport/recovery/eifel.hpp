// SPDX-License-Identifier: Apache-2.0
// Whether what was sent again had been lost at all. It had not when an ACK that goes beyond the gap answers a packet that left before the
// first retransmission did (Eifel: RFC 3522, section 3.2), or when every retransmission met a receiver that had the packet (RFC 3708).
#pragma once

#include <algorithm>
#include <cstdint>

#include "event/time.hpp"

namespace sluice
{

class Eifel
{
      public:
	// Packets count as lost.
	void begin()
	{
		is_under_watch_ = true;
		first_resent_at_ = NEVER;
		unanswered_ = 0;
	}

	void on_resent(Time now)
	{
		first_resent_at_ = std::min(first_resent_at_, now);
		unanswered_++;
	}

	// With each ACK. `advances`: it goes beyond the gap; `duplicate`: what it answers had arrived before. True: once, nothing had been lost.
	bool was_needless(Time sent_at, bool advances, bool duplicate)
	{
		if (!is_under_watch_ || first_resent_at_ == NEVER)
			return false;
		bool all_had_arrived = duplicate && unanswered_ && !--unanswered_;

		if (!all_had_arrived && !(advances && sent_at < first_resent_at_))
			return false;
		is_under_watch_ = false;
		return true;
	}

      private:
	bool is_under_watch_ = false;
	Time first_resent_at_ = NEVER;
	std::uint32_t unanswered_ = 0; // retransmissions of which nobody has said that they were needless
};

} // namespace sluice
