// SPDX-License-Identifier: Apache-2.0
// A link between two parts of a network. Its port belongs to one part, its far end to the other.
// What departs in a window is in a mailbox until the next window, so that no two threads touch
// a packet at once.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <utility>

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
//
// In each window one mailbox is filled and the other one emptied. What different threads write has
// cache lines of its own.
class alignas(64) Crossing : public RankedEvent
{
      public:
	// `number`: the port's.
	Crossing(Port &from, std::uint32_t number)
	    : RankedEvent{{.kind = EventKind::Crossing}, number}, peer_(from.peer()),
	      leads_to_host_(from.leads_to_host()), from_(from)
	{
		from.lead_to_other_part();
	}

	// The near end, after a window: posts what has departed by `limit`. Returns when the first of
	// these packets arrives; NEVER if there is none.
	Time post(Time limit, bool turn)
	{
		PacketList departed = from_.take_departures(limit);

		if (departed.empty())
			return NEVER;
		mail_[turn].packets = departed;
		return departed.front()->arrives_at;
	}

	// The near end: when the next packet departs that has not been posted; NEVER if none waits.
	Time next_departure() const
	{
		return from_.next_departure();
	}

	// The far end, before a window: what has been posted comes on to the calendar.
	void fetch(Calendar &calendar, bool turn)
	{
		PacketList &packets = mail_[turn].packets;
		bool is_on_calendar = !arriving_.empty();

		if (packets.empty())
			return;
		if (packets.front()->arrives_at <= calendar.now())
			throw std::logic_error("a packet has reached another part of the network too late");
		arriving_.append(std::exchange(packets, {}));
		if (!is_on_calendar)
			await(calendar);
	}

	// The far end: takes the packet that arrives now. `after_arrival` follows.
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

	Time least_passage(std::uint32_t frame_bytes) const
	{
		return from_.least_passage(frame_bytes);
	}

	template <class Visit> void visit(Visit &&visit) const
	{
		for (const Mail &mail : mail_)
			mail.packets.visit(visit);
		arriving_.visit(visit);
	}

      private:
	struct alignas(64) Mail {
		PacketList packets;
	};

	void await(Calendar &calendar)
	{
		at = arriving_.first().arrives_at;
		calendar.add_ranked(this);
	}

	const std::uint16_t peer_;
	const bool leads_to_host_;
	std::uint8_t ingress_group_ = 0;
	Link arriving_;
	Port &from_;
	std::array<Mail, 2> mail_;
};

} // namespace sluice
