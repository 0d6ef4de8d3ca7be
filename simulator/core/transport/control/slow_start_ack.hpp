// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "event/time.hpp"

namespace sluice
{

// An ACK in slow start.
struct SlowStartAck {
	std::uint32_t una, next; // the first unacknowledged packet, and the next packet to send
	Time now, rtt, smoothed_rtt;
	std::uint32_t cwnd;
	std::uint32_t payload_bytes; // of a full packet
};

} // namespace sluice
