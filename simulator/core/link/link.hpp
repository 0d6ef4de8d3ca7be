// SPDX-License-Identifier: Apache-2.0
// The packets on a link, in the order in which they reach its end.
#pragma once

#include <utility>

#include "event/time.hpp"
#include "packet/packet_list.hpp"

namespace sluice
{

class Link
{
      public:
	bool empty() const
	{
		return packets_.empty();
	}

	void push(Packet *packet, Time arrives_at)
	{
		packet->arrives_at = arrives_at;
		packets_.push(packet);
	}

	// Takes the first packet, and prefetches the second packet after it.
	Packet *pop()
	{
		Packet *packet = packets_.pop();

		if (!packets_.empty())
			__builtin_prefetch(packets_.front()->next, 1);
		return packet;
	}

	PacketList take_all()
	{
		return std::exchange(packets_, {});
	}

	// Packets of which each knows when it arrives, behind those that arrive before.
	void append(const PacketList &packets)
	{
		packets_.append(packets);
	}

	// The first packet of a link that is not empty.
	const Packet &first() const
	{
		return *packets_.front();
	}

	template <class Visit> void visit(Visit &&visit) const
	{
		packets_.visit(visit);
	}

      private:
	PacketList packets_;
};

} // namespace sluice
