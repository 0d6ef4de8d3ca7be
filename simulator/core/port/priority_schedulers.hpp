// SPDX-License-Identifier: Apache-2.0
// Which priority a port serves next. `waiting` has a bit for each priority with packets, and at
// least one bit set.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "event/time.hpp"
#include "port/queueing.hpp"

namespace sluice
{

// Serves the highest priority.
class Strict
{
      public:
	unsigned choose(unsigned waiting, Time)
	{
		return std::countr_zero(waiting);
	}

	void sent(unsigned, std::uint32_t, Time)
	{
	}
};

// Serves bandwidth shares as Linux HTB does (net/sched/sch_htb.c): first the highest priority
// that is below its own rate, and if none is, the highest priority. Each class has a bucket of
// tokens, which fills at its rate up to a burst. A packet takes tokens if its class is below its
// rate. A packet that uses what other classes left takes none.
class Shares
{
      public:
	// `share`: of the link, for each priority. After a silence a class may send `burst_bytes`
	// at once.
	Shares(const std::array<double, MAX_QUEUES> &share, std::uint64_t link_bps, std::uint64_t burst_bytes)
	{
		for (unsigned i = 0; i < MAX_QUEUES; i++) {
			classes_[i].ps_per_byte =
				share[i] > 0 ? 8e12 / (share[i] * static_cast<double>(link_bps)) : 0;
			classes_[i].burst = cost(i, burst_bytes);
			classes_[i].tokens = classes_[i].burst;
		}
	}

	unsigned choose(unsigned waiting, Time now)
	{
		for (unsigned left = waiting; left; left &= left - 1) {
			unsigned i = std::countr_zero(left);

			fill(classes_[i], now);
			if (classes_[i].ps_per_byte > 0 && classes_[i].tokens >= 0) {
				on_own_account_ = true;
				return i;
			}
		}
		on_own_account_ = false;
		return std::countr_zero(waiting);
	}

	// A packet of the priority that was chosen last is sent.
	void sent(unsigned chosen, std::uint32_t frame_bytes, Time)
	{
		if (on_own_account_)
			classes_[chosen].tokens -= cost(chosen, frame_bytes);
	}

      private:
	struct Class {
		double ps_per_byte = 0; // at the class's own rate; 0: it has no rate
		Time burst = 0;		// tokens are picoseconds of the class's rate
		Time tokens = 0;	// below 0: the class has used up its rate
		Time filled_at = 0;
	};

	// At most eleven days, which no run lasts.
	Time cost(unsigned i, std::uint64_t bytes) const
	{
		return static_cast<Time>(std::min(classes_[i].ps_per_byte * static_cast<double>(bytes), 1e18));
	}

	static void fill(Class &c, Time now)
	{
		c.tokens = std::min(c.burst, c.tokens + (now - c.filled_at));
		c.filled_at = now;
	}

	std::array<Class, MAX_QUEUES> classes_;
	bool on_own_account_ = false;
};

} // namespace sluice
