// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "packet/packet.hpp"

namespace sluice
{

class Connection;

// When the next packet of a connection leaves.
class Pacing
{
      public:
	Pacing() = default;
	Pacing(const Pacing &) = delete;
	Pacing &operator=(const Pacing &) = delete;
	virtual ~Pacing() = default;

	// The connection is established.
	virtual void begin(Connection &connection) = 0;

	// The window may have opened: sends what may leave now, or sets a timer for it.
	virtual void release(Connection &connection) = 0;

	// The packet answers one of the connection's. The round-trip time was sampled.
	virtual void on_answer(Connection &, const Packet &)
	{
	}

	// Whether the connection must not send this packet now, neither as a probe nor in answer to a timeout.
	virtual bool holds_back(Connection &, std::uint32_t /* number */)
	{
		return false;
	}

	// Whether the window may grow with an ACK. `limited`: it kept the sender from sending more.
	virtual bool lets_grow(const Connection &connection, bool limited) const;

	// The ports have answered the rate request.
	virtual void on_grant(Connection &)
	{
	}

	// The connection has nothing more to send.
	virtual void on_over(Connection &)
	{
	}

	// The event of the pacing timer came.
	virtual void on_timer(Connection &)
	{
	}
};

} // namespace sluice
