// SPDX-License-Identifier: Apache-2.0
// Whether a retransmission was needless. It was if an ACK beyond the gap answers a packet that
// left before the first retransmission did (Eifel: RFC 3522, section 3.2). It also was if the
// receiver already had every retransmitted packet (RFC 3708).
#pragma once

#include <algorithm>
#include <cstdint>

#include "event/time.hpp"

namespace sluice
{

class Eifel
{
      public:
	// The sender takes packets for lost.
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

	// Called with each ACK. `advances`: it goes beyond the gap. `duplicate`: the packet that
	// it answers had arrived before. True, once, if nothing had been lost.
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
	Time first_resent_at_ = NEVER;
	std::uint32_t unanswered_ = 0; // retransmissions that no ACK has called needless
	bool is_under_watch_ = false;
};

} // namespace sluice
