// SPDX-License-Identifier: Apache-2.0
// FISH, inside one priority: every active flow has a sub-queue of its own (dynamic queue sharing,
// laws/dqs.h). The sub-queues are served in turn, one packet each.
#pragma once

#include <array>
#include <cstdint>

#include "event/time.hpp"
#include "laws/dqs.h"
#include "packet/packet_list.hpp"

namespace sluice
{

class FlowQueues
{
      public:
	explicit FlowQueues(const sl_dqs_settings &settings = {}) : settings_(settings)
	{
	}

	void push(Packet *packet, Time now);

	Packet *pop(Time now)
	{
		waiting_--;
		return queues_[sl_dqs_dequeue(&law_, &settings_, static_cast<sl_u64>(now / NANOSECOND))].pop();
	}

	bool empty() const
	{
		return !waiting_;
	}

	template <class Visit> void visit(Visit &&visit) const
	{
		for (const PacketList &queue : queues_)
			queue.visit(visit);
	}

      private:
	sl_dqs_settings settings_;
	sl_dqs law_ = {};
	std::array<PacketList, SL_DQS_MAX_QUEUES> queues_;
	std::uint32_t waiting_ = 0;
};

} // namespace sluice
