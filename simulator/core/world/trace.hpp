// SPDX-License-Identifier: Apache-2.0
// What happens at chosen ports, to the packets of chosen flows at all ports, and to the windows of these flows. A port
// that traces is not plain (port_settings.hpp), so that plain ports do not ask.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "event/time.hpp"
#include "packet/packet.hpp"

namespace sluice
{

enum class TraceEvent : std::uint8_t { Queued, Sent, Received, Marked, Dropped, Window, MarkCut, LossCut, Timeout };

// simulator/trace.py reads it as it is, and has the names of events and packets.
struct TraceRow {
	Time at;
	std::uint64_t flow;
	std::uint64_t waiting_bytes = 0; // at the port, after the event
	std::uint32_t port = UINT32_MAX; // of a packet
	std::uint32_t number = 0;
	std::uint32_t next_expected = 0;
	std::uint32_t cwnd = 0; // of a window, in packets
	std::uint16_t frame_bytes = 0;
	TraceEvent event;
	PacketKind packet = PacketKind::Data;
	std::uint8_t tag = 0;
	std::uint8_t queue = 0;
	bool ect = false;
	bool ce = false;
};

struct Trace {
	std::unordered_set<std::uint64_t> flows;
	std::vector<TraceRow> rows;
};

} // namespace sluice
