// SPDX-License-Identifier: Apache-2.0
// What became of each packet between the first unacknowledged one and the next to send: a ring of states that grows.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice
{

class Scoreboard
{
      public:
	enum State : std::uint8_t { Sent, Delivered, Lost, SentAgain };

	State at(std::uint32_t number) const
	{
		return static_cast<State>(ring_[number & mask_]);
	}

	void set(std::uint32_t number, State state)
	{
		ring_[number & mask_] = state;
	}

	// Room for packets first … last.
	void cover(std::uint32_t first, std::uint32_t last)
	{
		if (last - first >= ring_.size())
			grow(first, last);
	}

      private:
	void grow(std::uint32_t first, std::uint32_t last)
	{
		std::uint32_t size = ring_.empty() ? 16 : static_cast<std::uint32_t>(ring_.size());

		while (last - first >= size)
			size *= 2;
		std::vector<std::uint8_t> larger(size, Sent);
		for (std::uint32_t number = first; !ring_.empty() && number != last && number - first < ring_.size();
		     number++)
			larger[number & (size - 1)] = ring_[number & mask_];
		ring_.swap(larger);
		mask_ = size - 1;
	}

	std::vector<std::uint8_t> ring_;
	std::uint32_t mask_ = 0;
};

} // namespace sluice
