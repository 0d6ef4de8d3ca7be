// SPDX-License-Identifier: Apache-2.0
// The interface of a port's queue disciplines. There are two: Priorities (priorities.hpp), which
// combines a scheduler with a queue for each priority, and ShortestFirst (shortest_first.hpp).
#pragma once

#include <cstdint>
#include <functional>

#include "event/time.hpp"
#include "packet/packet.hpp"

namespace sluice
{

constexpr unsigned MAX_QUEUES = 8;

// `packet->queue` is the packet's priority; 0 is the highest. The port itself marks packets and
// bounds the buffer.
class Queueing
{
      public:
	virtual ~Queueing() = default;

	virtual void push(Packet *packet, Time now) = 0;

	// The packet to send next, of a priority of which `paused` has no bit; nullptr if none of these waits. A
	// discipline without priorities is paused as a whole. Only if a packet waits.
	virtual Packet *pop(Time now, unsigned paused) = 0;

	virtual bool empty() const = 0;

	// The packet to drop because the buffer has no room for `arriving`. It is in no queue
	// when this returns.
	virtual Packet *displaced(Packet *arriving)
	{
		return arriving;
	}

	virtual void visit(const std::function<void(const Packet &)> &visit) const = 0;
};

} // namespace sluice
