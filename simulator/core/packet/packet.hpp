// SPDX-License-Identifier: Apache-2.0
// A packet. A receiver turns a data packet into its acknowledgement in place.
#pragma once

#include <cstdint>

#include "event/time.hpp"
#include "packet/carried_flow.hpp"

namespace sluice
{

// The last three are those of transports that are not TCP (transport/messages/): data and headers to the sink, and headers
// to the source.
enum class PacketKind : std::uint8_t {
	Data,
	Ack,
	Syn,
	SynAck,
	RateRequest,
	RateGrant,
	MessageData,
	MessageQuery,
	MessageAnswer
};

// 64 bytes, one cache line. The checker wants both fields of the union initialised.
// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init)
struct alignas(64) Packet {
	Packet *next = nullptr; // behind this packet, in a queue or on a link
	PacketKind kind = PacketKind::Data;
	std::uint8_t tag = 0;
	std::uint8_t queue = 0;	     // at the port where the packet waits
	bool ect = false;	     // ECN-capable: a port may mark it
	bool ce = false;	     // marked; an ACK with it echoes a mark
	bool duplicate = false;	     // ACK: the answered packet had arrived before (RFC 2883)
	bool last = false;	     // the flow's last packet, as a FIN says
	bool window_reduced = false; // CWR (RFC 3168)
	std::uint16_t frame_bytes = 0;
	std::uint16_t destination = 0;	 // host
	std::uint32_t number = 0;	 // in the flow, from 0; ACK: of the answered packet
	std::uint32_t next_expected = 0; // ACK: all packets before this one have arrived
	std::uint32_t remaining = 0;	 // packets that the flow has left (pFabric's priority)
	std::uint32_t path = 0;		 // the hash by which switches choose among equal-cost links
	std::uint32_t account = 0;	 // of a shared buffer, which holds it
	Time sent_at = 0;		 // ACK: when the packet that it answers was sent
	union {
		Time arrives_at = 0;   // on a link: at its end
		std::uint64_t arrival; // at a shortest-first port: running number
	};
	CarriedFlow *flow = nullptr;
};
static_assert(sizeof(Packet) == 64);

} // namespace sluice
