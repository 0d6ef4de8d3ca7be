// SPDX-License-Identifier: Apache-2.0
// The seam for transports that are not TCP. Such a transport is one object for the network, which keeps what hosts know
// across their flows, and one object for each flow, with what its two ends do. Both are in one file: of the tree, or one
// that is compiled to a library (docs/how-to/add-a-transport.md). The core keeps account of what has arrived.
#pragma once

#include <memory>

#include "event/timer.hpp"
#include "packet/packet.hpp"

namespace sluice
{

class Flow;

// A function of the core that a library may call.
#define SLUICE_SEAM [[gnu::visibility("default")]]

// The two ends of one flow. What one end knows, it must have learnt from packets.
class Message
{
      public:
	Message(TimerEvents &timers, Flow &flow)
	    : source_timer(timers, EventKind::MessageSource, flow), sink_timer(timers, EventKind::MessageSink, flow)
	{
	}

	Message(const Message &) = delete;
	Message &operator=(const Message &) = delete;
	virtual ~Message() = default;

	// At the source: the flow starts.
	virtual void start() = 0;

	// At the sink, until all data has arrived: a header from the source, or data that had not arrived before.
	virtual void on_query(const Packet &packet) = 0;
	virtual void on_arrival(const Packet &packet) = 0;

	// At the source: a header from the sink.
	virtual void on_answer(const Packet &packet) = 0;

	// A timer is due, and the flow has not ended.
	virtual void on_source_timer() = 0;
	virtual void on_sink_timer() = 0;

	Timer source_timer, sink_timer;
};

class MessageTransport
{
      public:
	MessageTransport() = default;
	MessageTransport(const MessageTransport &) = delete;
	MessageTransport &operator=(const MessageTransport &) = delete;
	virtual ~MessageTransport() = default;

	virtual std::unique_ptr<Message> open(TimerEvents &timers, Flow &flow) = 0;
};

} // namespace sluice
