// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "event/time.hpp"

namespace sluice
{

enum class Control : std::uint8_t { Dctcp, Ucp, D2tcp, Datcp, Mcp, Reno, Cubic, Pfabric, D3 };

// How the receiver echoes marks: the CE of each packet (RFC 8257), or until the sender has reduced (RFC 3168), or not at all.
enum class Echo : std::uint8_t { None, Standard, Exact };

// The same for all flows of a run.
struct TransportSettings {
	Control control = Control::Dctcp;
	Echo echo = Echo::Exact;
	std::uint32_t payload_bytes = 1448; // of a full packet
	std::uint32_t header_bytes = 66;    // of every packet; an ACK has nothing else
	std::uint32_t initial_window = 10;  // packets
	std::uint32_t max_window = 10000;
	Time rto_min = 10 * MILLISECOND;
	Time rto_initial = SECOND;	       // before the first sample of the round-trip time
	std::uint32_t duplicate_threshold = 3; // packets beyond a gap until it counts as lost; 0: only timeouts tell
	bool recovers_as_linux = false;	       // RACK-TLP, and its retransmission timer; else as RFC 6298 has it
	std::uint32_t packets_per_ack = 1;
	Time ack_delay = 500 * MICROSECOND;   // of an ACK that waits for a further packet
	bool handshake = true;		      // SYN and SYN-ACK go before the data
	bool tags = true;		      // packets say what their flow has sent; else they are untagged
	bool tags_deadlines = false;	      // a deadline flow says its urgency instead,
	std::uint64_t urgent_after_bytes = 0; // once it has sent this much
	bool tags_sizes = false;	      // a flow of known size its size class
	bool forgets_late = false;	      // past its deadline a flow goes on as one without
};

} // namespace sluice
