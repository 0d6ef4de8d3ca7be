// SPDX-License-Identifier: Apache-2.0
// The queue of each tag at a port. Ports with the same map share one copy.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "laws/tags.gen.h"

namespace sluice
{

using QueueMap = std::array<std::uint8_t, SL_TAG_COUNT>;
using SharedQueueMap = std::shared_ptr<const QueueMap>;

class QueueMaps
{
      public:
	SharedQueueMap shared(const QueueMap &map)
	{
		std::weak_ptr<const QueueMap> &known = known_[map];
		SharedQueueMap found = known.lock();

		if (!found)
			known = found = std::make_shared<const QueueMap>(map);
		if (known_.size() > bound_)
			forget_unused();
		return found;
	}

      private:
	static constexpr std::size_t LEAST_BOUND = 64;

	void forget_unused()
	{
		std::erase_if(known_, [](const auto &entry) { return entry.second.expired(); });
		bound_ = std::max(LEAST_BOUND, 2 * known_.size());
	}

	std::map<QueueMap, std::weak_ptr<const QueueMap>> known_;
	std::size_t bound_ = LEAST_BOUND;
};

} // namespace sluice
