// SPDX-License-Identifier: Apache-2.0
// The state of each packet between the first missing one and the last: a ring that grows.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice
{

enum class PacketState : std::uint8_t { Sent, Delivered, Lost, SentAgain };

class PacketStates
{
      public:
	PacketState at(std::uint32_t number) const
	{
		return ring_[number & mask_];
	}

	void set(std::uint32_t number, PacketState state)
	{
		ring_[number & mask_] = state;
	}

	// Makes room for packets first to last.
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
		std::vector<PacketState> larger(size, PacketState::Sent);
		for (std::uint32_t number = first; !ring_.empty() && number != last && number - first < ring_.size();
		     number++)
			larger[number & (size - 1)] = ring_[number & mask_];
		ring_.swap(larger);
		mask_ = size - 1;
	}

	std::vector<PacketState> ring_;
	std::uint32_t mask_ = 0;
};

} // namespace sluice
