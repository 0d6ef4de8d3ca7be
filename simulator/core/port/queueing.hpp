// SPDX-License-Identifier: Apache-2.0
// What every queue discipline of a port offers. There are two: priorities.hpp, put together from a rule between the priorities
// (between.hpp) and one inside each (fifo: PacketList; flow_queues.hpp), and shortest_first.hpp.
#pragma once

#include <cstdint>
#include <functional>

#include "packet/packet.hpp"
#include "event/time.hpp"

namespace sluice
{

constexpr unsigned MAX_QUEUES = 8;

// `packet->queue` says which priority a packet is of; 0 is served first. Buffer bound and marks are the port's affair.
class Queueing
{
      public:
	virtual ~Queueing() = default;

	virtual void push(Packet *packet, Time now) = 0;

	// There is one.
	virtual Packet *pop(Time now) = 0;

	virtual bool empty() const = 0;

	// The buffer has no room for `arriving`: who is dropped? Whoever it is waits in no queue when this returns.
	virtual Packet *displaced(Packet *arriving)
	{
		return arriving;
	}

	virtual void visit(const std::function<void(const Packet &)> &visit) const = 0;
};

} // namespace sluice
