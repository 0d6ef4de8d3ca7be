// SPDX-License-Identifier: Apache-2.0
// The packets on a link, in the order in which they come to its end.
#pragma once

#include "packet/packet.hpp"
#include "event/time.hpp"

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

	// The first packet. The second one after it is fetched from memory meanwhile.
	Packet *pop()
	{
		Packet *packet = packets_.pop();

		if (!packets_.empty())
			__builtin_prefetch(packets_.front()->next, 1);
		return packet;
	}

	// The packet that is first now; there is one.
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
