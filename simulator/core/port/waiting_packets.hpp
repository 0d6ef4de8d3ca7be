// SPDX-License-Identifier: Apache-2.0
// The packets that wait at a port. Nearly all ports serve strict priorities, so these are a part of
// the port itself: a packet then needs no further cache line and no virtual call. Any other
// discipline is an object of its own.
#pragma once

#include <memory>
#include <utility>

#include "event/time.hpp"
#include "packet/packet.hpp"
#include "packet/packet_list.hpp"
#include "port/priorities.hpp"
#include "port/priority_schedulers.hpp"
#include "port/queueing.hpp"

namespace sluice
{

class WaitingPackets
{
      public:
	// nullptr: strict priorities.
	explicit WaitingPackets(std::unique_ptr<Queueing> other) : other_(std::move(other)), strict_({}, {})
	{
	}

	void push(Packet *packet, Time now)
	{
		if (other_)
			other_->push(packet, now);
		else
			strict_.push(packet, now);
	}

	// As Queueing.
	Packet *pop(Time now, unsigned paused)
	{
		return other_ ? other_->pop(now, paused) : strict_.pop(now, paused);
	}

	// The packets of strict priorities alone: `is_strict` must be true.
	void push_strict(Packet *packet, Time now)
	{
		strict_.push(packet, now);
	}

	Packet *pop_strict(Time now)
	{
		return strict_.pop(now);
	}

	bool is_strict() const
	{
		return !other_;
	}

	Packet *displaced(Packet *arriving)
	{
		return other_ ? other_->displaced(arriving) : arriving;
	}

	// Goes over to another discipline. The packets wait on, in the order in which they would
	// have been sent.
	void change(std::unique_ptr<Queueing> other, Time now)
	{
		WaitingPackets changed(std::move(other));

		while (!empty())
			changed.push(pop(now, 0), now);
		strict_ = changed.strict_;
		other_ = std::move(changed.other_);
	}

	template <class Visit> void visit(Visit &&visit) const
	{
		if (other_)
			other_->visit(visit);
		else
			strict_.visit(visit);
	}

      private:
	bool empty() const
	{
		return other_ ? other_->empty() : strict_.empty();
	}

	std::unique_ptr<Queueing> other_; // before the queues, whose last is rarely read
	Priorities<Strict, PacketList> strict_;
};

} // namespace sluice
