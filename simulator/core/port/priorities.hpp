// SPDX-License-Identifier: Apache-2.0
// Up to eight priorities: `Between` chooses one (between.hpp), `Inside` holds the packets of one (PacketList, FlowQueues).
#pragma once

#include <array>
#include <utility>

#include "port/between.hpp"
#include "port/queueing.hpp"

namespace sluice
{

template <class Between, class Inside> class alignas(64) Priorities final : public Queueing
{
      public:
	Priorities(Between between, const Inside &inside) : between_(std::move(between))
	{
		inside_.fill(inside);
	}

	void push(Packet *packet, Time now) override
	{
		inside_[packet->queue].push(packet, now);
		waiting_ |= 1U << packet->queue;
	}

	Packet *pop(Time now) override
	{
		unsigned chosen = between_.choose(waiting_, now);
		Packet *packet = inside_[chosen].pop(now);

		between_.sent(chosen, packet->frame_bytes, now);
		if (inside_[chosen].empty())
			waiting_ &= ~(1U << chosen);
		return packet;
	}

	bool empty() const override
	{
		return !waiting_;
	}

	void visit(const std::function<void(const Packet &)> &visit) const override
	{
		for (const Inside &inside : inside_)
			inside.visit(visit);
	}

      private:
	unsigned waiting_ = 0; // in the first cache line, with the priorities that are served first
	std::array<Inside, MAX_QUEUES> inside_;
	Between between_;
};

} // namespace sluice
