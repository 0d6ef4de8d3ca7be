// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice
{

// The data packets of a connection that wait at its host's own port. There are few of them, because the
// connection sends no more while they wait (transport/pacing/small_queues.hpp).
class HostQueue
{
      public:
	void add(std::uint32_t number)
	{
		numbers_.push_back(number);
	}

	// The packet has left the host.
	void remove(std::uint32_t number)
	{
		auto found = std::find(numbers_.begin(), numbers_.end(), number);

		*found = numbers_.back();
		numbers_.pop_back();
	}

	bool holds(std::uint32_t number) const
	{
		return std::find(numbers_.begin(), numbers_.end(), number) != numbers_.end();
	}

	std::uint32_t packets() const
	{
		return static_cast<std::uint32_t>(numbers_.size());
	}

      private:
	std::vector<std::uint32_t> numbers_;
};

} // namespace sluice
