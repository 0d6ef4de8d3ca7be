// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "event/time.hpp"

namespace sluice
{

// What a connection's retransmission timer is set for.
enum class AlarmKind : std::uint8_t {
	Timeout, // no ACK came: everything in flight counts as lost
	Probe,	 // the last packets may be lost: send one to ask (RFC 8985, section 7)
	Overdue, // an overtaken packet has not come (RFC 8985, section 6.2)
};

struct Alarm {
	AlarmKind kind;
	Time due;
};

} // namespace sluice
