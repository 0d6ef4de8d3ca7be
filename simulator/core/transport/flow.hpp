// SPDX-License-Identifier: Apache-2.0
// A flow: the data to send, the connection's sending end at one host, and the receiver at
// another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "event/timer.hpp"
#include "packet/carried_flow.hpp"
#include "packet/packet.hpp"
#include "port/port.hpp"
#include "transport/connection.hpp"
#include "transport/flow_spec.hpp"
#include "transport/messages/message.hpp"
#include "transport/receiver.hpp"
#include "transport/settings.hpp"

namespace sluice
{

class Flow : public CarriedFlow
{
      public:
	Flow(const TransportSettings &settings, const FlowSpec &ordered, Port &source_port, Port &sink_port)
	    : CarriedFlow(ordered.id), spec(ordered), connection(source_port.world(), settings, *this, source_port),
	      receiver(sink_port.world(), settings, *this, sink_port)
	{
		if (settings.messages)
			message = settings.messages->open(source_port.world().timers, *this);
		if (!spec.until)
			return;
		end = std::make_unique<Timer>(source_port.world().timers, EventKind::FlowEnd, *this);
		end->set(spec.until);
	}

	// A packet of this kind will reach its host soon: fetches from memory what the packet
	// will need.
	void prefetch(PacketKind kind) const
	{
		const char *const sides[] = {reinterpret_cast<const char *>(&connection),
					     reinterpret_cast<const char *>(&receiver)};
		const char *side = sides[kind == PacketKind::Data]; // no branch, because none could be foreseen

		for (unsigned line = 0; line < 4; line++)
			__builtin_prefetch(side + 64 * line, 1);
	}

	// The hash by which switches choose among equal-cost links, for packets from the source.
	// For packets to the source it is the complement's.
	std::uint32_t path_hash() const
	{
		return path_hash(spec.id);
	}

	static std::uint32_t path_hash(std::uint64_t id)
	{
		return static_cast<std::uint32_t>(id * GOLDEN_RATIO >> 32);
	}

	std::uint32_t return_path_hash() const
	{
		return path_hash(~spec.id);
	}

	// The flow may be removed: no packet of it is in flight, and none will be.
	bool is_over() const
	{
		return reported && packets_under_way == receiver.absorbed() && connection.is_over() &&
		       receiver.is_over();
	}

	const FlowSpec spec;
	Connection connection;
	Receiver receiver;
	std::size_t place = 0;		  // among the fabric's flows
	std::unique_ptr<Timer> end;	  // only of an endless flow
	std::unique_ptr<Message> message; // only of a transport that is not TCP

      private:
	static constexpr std::uint64_t GOLDEN_RATIO = 0x9E3779B97F4A7C15ULL; // 2^64 / 1.618…
};

} // namespace sluice
