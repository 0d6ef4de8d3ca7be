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

// What an ACK shows of the packets that were taken for lost.
enum class Finding : std::uint8_t {
	Lost,	  // nothing else
	Late,	  // one of them was only late; retransmissions are still in flight
	Needless, // none was lost
};

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
	// it answers had arrived before. `waits`: a late packet alone proves nothing yet.
	// Needless, once, if nothing had been lost.
	Finding judge(Time sent_at, bool advances, bool duplicate, bool waits)
	{
		if (!is_under_watch_ || first_resent_at_ == NEVER)
			return Finding::Lost;
		bool all_had_arrived = duplicate && unanswered_ && !--unanswered_;
		bool was_late = advances && sent_at < first_resent_at_;

		if (!all_had_arrived && !was_late)
			return Finding::Lost;
		if (!all_had_arrived && waits)
			return Finding::Late;
		is_under_watch_ = false;
		return Finding::Needless;
	}

      private:
	Time first_resent_at_ = NEVER;
	std::uint32_t unanswered_ = 0; // retransmissions that no ACK has called needless
	bool is_under_watch_ = false;
};

} // namespace sluice
