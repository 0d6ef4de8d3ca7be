// SPDX-License-Identifier: Apache-2.0
// The seam for transports that are not TCP. Such a transport is one object for the network, which keeps what hosts know
// across their flows, and one object for each flow, with what its two ends do. Both are in one file.
#pragma once

#include <memory>

#include "event/timer.hpp"
#include "packet/packet.hpp"

namespace sluice
{

class Flow;

// The two ends of one flow. What one end knows, it must have learnt from packets.
class Message
{
      public:
	Message() = default;
	Message(const Message &) = delete;
	Message &operator=(const Message &) = delete;
	virtual ~Message() = default;

	// At the source: the flow starts.
	virtual void start() = 0;

	// At the sink: data, or a header from the source. True if the last missing byte has arrived with it.
	virtual bool on_arrival(const Packet &packet) = 0;

	// At the source: a header from the sink.
	virtual void on_answer(const Packet &packet) = 0;

	virtual void on_source_timer() = 0;
	virtual void on_sink_timer() = 0;
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
