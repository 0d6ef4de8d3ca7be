// SPDX-License-Identifier: Apache-2.0
// The far end of a link that leads from one part of a network to another. The near end is an Outlet
// (outlet.hpp).
#pragma once

#include <cstdint>
#include <stdexcept>

#include "event/calendar.hpp"
#include "event/time.hpp"
#include "link/link.hpp"
#include "packet/packet.hpp"
#include "packet/packet_list.hpp"
#include "port/port.hpp"

namespace sluice
{

// As an event, a crossing is the arrival of the first packet at its far end. Of one time, arrivals from
// other parts come first, by the numbers of their ports. So the order of events depends neither on
// windows nor on threads.
class alignas(64) Crossing : public RankedEvent
{
      public:
	// `number`: the port's.
	Crossing(const Port &from, std::uint32_t number)
	    : RankedEvent{{.kind = EventKind::Crossing}, number}, peer_(from.peer()),
	      leads_to_host_(from.leads_to_host()), from_(from)
	{
	}

	// Takes packets that arrive after those which it has.
	void append(const PacketList &packets, Calendar &calendar)
	{
		bool is_on_calendar = !arriving_.empty();

		if (packets.front()->arrives_at <= calendar.now())
			throw std::logic_error("a packet has reached another part of the network too late");
		arriving_.append(packets);
		if (!is_on_calendar)
			await(calendar);
	}

	// Takes the packet that arrives now. `after_arrival` follows.
	Packet *take_arrival()
	{
		return arriving_.pop();
	}

	void after_arrival(Calendar &calendar)
	{
		if (!arriving_.empty())
			await(calendar);
	}

	// The packet that will arrive next, if it has been posted.
	const Packet *next_arrival() const
	{
		return arriving_.empty() ? nullptr : &arriving_.first();
	}

	// The host or switch at the far end.
	std::uint16_t peer() const
	{
		return peer_;
	}

	bool leads_to_host() const
	{
		return leads_to_host_;
	}

	std::uint8_t ingress_group() const
	{
		return ingress_group_;
	}

	// Between two windows: reads again what may change at the port.
	void prepare()
	{
		ingress_group_ = from_.ingress_group();
	}

	template <class Visit> void visit(Visit &&visit) const
	{
		arriving_.visit(visit);
	}

      private:
	void await(Calendar &calendar)
	{
		at = arriving_.first().arrives_at;
		calendar.add_ranked(this);
	}

	const std::uint16_t peer_;
	const bool leads_to_host_;
	std::uint8_t ingress_group_ = 0;
	Link arriving_;
	const Port &from_;
};

} // namespace sluice
