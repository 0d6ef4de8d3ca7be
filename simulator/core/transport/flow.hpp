// SPDX-License-Identifier: Apache-2.0
// A flow: what is to be sent, its sender at one host, its receiver at another.
#pragma once

#include <cstdint>

#include "transport/receiver.hpp"
#include "transport/connection.hpp"

namespace sluice
{

class Flow
{
      public:
	Flow(World &world, const TransportSettings &settings, const FlowSpec &spec, Port &source_port,
	     Port &sink_port)
	    : spec(spec), sender(world, settings, *this, source_port), receiver(world, settings, *this, sink_port),
	      end(world.timers, Happening::FlowEnd, *this)
	{
	}

	// A packet of this kind will be with its host soon: fetch what it meets from memory.
	void prefetch(PacketKind kind) const
	{
		const char *side = kind == PacketKind::Data ? reinterpret_cast<const char *>(&receiver)
							    : reinterpret_cast<const char *>(&sender);

		for (unsigned line = 0; line < 4; line++)
			__builtin_prefetch(side + 64 * line, 1);
	}

	// Nobody will ask for it any more: no packet of it is under way, and none will be.
	bool is_over() const
	{
		return reported && !packets_under_way && sender.is_over() && receiver.is_over();
	}

	const FlowSpec spec;
	Sender sender;
	Receiver receiver;
	std::uint32_t packets_under_way = 0; // of both directions
	std::size_t place = 0;		     // among the fabric's flows
	bool reported = false;		     // its result has been written
	Timer end;			     // of an endless one
};

} // namespace sluice
