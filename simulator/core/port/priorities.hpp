// SPDX-License-Identifier: Apache-2.0
// Up to eight priorities. `Scheduler` chooses one of them (priority_schedulers.hpp); `Queue`
// holds the packets of one (PacketList or FlowQueues). Strict priorities are a part of each port, so no
// function here is virtual; discipline.cpp makes a Queueing of other ones.
#pragma once

#include <array>
#include <utility>

#include "packet/packet.hpp"
#include "port/queueing.hpp"

namespace sluice
{

template <class Scheduler, class Queue> class Priorities
{
      public:
	Priorities(Scheduler scheduler, const Queue &queue) : scheduler_(std::move(scheduler))
	{
		queues_.fill(queue);
	}

	void push(Packet *packet, Time now)
	{
		queues_[packet->queue].push(packet, now);
		waiting_ |= 1U << packet->queue;
	}

	// nullptr if pauses hold all that waits.
	Packet *pop(Time now, unsigned paused = 0)
	{
		if (paused && !(waiting_ & ~paused))
			return nullptr;
		unsigned chosen = scheduler_.choose(waiting_ & ~paused, now);
		Packet *packet = queues_[chosen].pop(now);

		scheduler_.sent(chosen, packet->frame_bytes, now);
		if (queues_[chosen].empty())
			waiting_ &= ~(1U << chosen);
		return packet;
	}

	bool empty() const
	{
		return !waiting_;
	}

	template <class Visit> void visit(Visit &&visit) const
	{
		for (const Queue &queue : queues_)
			queue.visit(visit);
	}

      private:
	unsigned waiting_ = 0; // a bit for each priority; shares a cache line with the highest
	std::array<Queue, MAX_QUEUES> queues_;
	[[no_unique_address]] Scheduler scheduler_;
};

} // namespace sluice
