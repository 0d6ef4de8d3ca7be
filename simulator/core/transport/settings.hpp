// SPDX-License-Identifier: Apache-2.0
// What all connections of a run have in common. simulator/network.py fills it in from the
// scenario.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "event/time.hpp"
#include "laws/dctcp.h"
#include "transport/control/control.hpp"
#include "transport/control/control_file.hpp"
#include "transport/messages/homa_settings.hpp"
#include "transport/messages/message.hpp"
#include "transport/timeout/timeout_settings.hpp"

namespace sluice
{

struct SegmentSettings {
	std::uint32_t payload_bytes = 1448; // of a full packet
	std::uint32_t header_bytes = 66;    // of every packet; an ACK is a header alone
};

// In packets.
struct WindowSettings {
	std::uint32_t initial = 10;
	std::uint32_t largest = 10000;
	std::uint32_t growth = 1; // with a window without marks; only controls that grow as Reno
};

struct RecoverySettings {
	// A packet counts as lost once so many later packets have arrived. 0: only a timeout
	// shows a loss.
	std::uint32_t duplicate_threshold = 3;
	// RACK-TLP, undoing of needless reductions and Linux's timeout. Otherwise only RFC 6675 and
	// RFC 6298.
	bool as_linux = false;
	// A reduction is undone once no retransmission is in flight (tcp_try_undo_partial). Else with the first packet
	// that was only late.
	bool undoes_late = false;

	bool uses_rack() const
	{
		return as_linux && duplicate_threshold;
	}
};

// What a receiver does.
struct AckSettings {
	Echo echo = Echo::Exact;
	std::uint32_t packets_per_ack = 1;
	Time delay = 500 * MICROSECOND; // how long the first packet without an ACK waits for further ones
};

// Where implementations of TCP differ. The defaults are Linux's, the others ns-2's (FullTcp with the patch of pFabric and
// PIAS).
struct ImplementationSettings {
	std::uint32_t first_alpha_q20 = SL_DCTCP_ALPHA_ONE; // of a new connection
	bool cuts_at_once = false;			    // for marks; else along with the ACKs (RFC 6937)
	// What the window bounds: packets from the first unacknowledged one on, even those that have arrived. Else
	// packets in flight.
	bool bounds_from_first = false;
	// Only an ACK that advances the first unacknowledged packet changes the window: by a cut, or by growth as for
	// one packet. The first ACK that echoes a mark lets it not grow.
	bool changes_by_advance = false;
	// The next flow of a connection keeps alpha and slow start's threshold.
	bool keeps_threshold = false;
	bool ends_with_ack = false; // a flow ends when its source knows that all has arrived
	// A cut for marks leaves a fraction of a packet in the window, and at least one packet. Else it is rounded, to two
	// packets or more.
	bool keeps_fractions = false;
	// Each ACK counts for alpha with the packets by which it advances, or else with one. Else with those that it
	// reports for the first time.
	bool alpha_by_acks = false;
	// A timeout lowers slow start's threshold only if the last cut was not for marks.
	bool timeout_spares_threshold = false;
	std::uint32_t sack_option_bytes =
		0;		    // of an ACK, and 8 for each of up to three blocks; 0: none for blocks either
	bool opens_if_busy = false; // a flow opens a connection if all of its two hosts are busy
};

// What the tag of a data packet says.
struct TagSettings {
	bool attained = true;		      // the bytes sent before; else …
	std::uint8_t fixed = 0;		      // … this tag, of headers too; 0: packets are untagged
	bool deadlines = false;		      // the urgency of a flow with a deadline …
	std::uint64_t urgent_after_bytes = 0; // … once it has sent this much
	bool sizes = false;		      // the size class of a flow of known size
	bool bursts =
		false; // packets that leave at one time have the tag of the last (dataplane/bpf/socket_tag.bpf.h)
};

struct TransportSettings {
	Control control = Control::dctcp;
	std::shared_ptr<const ControlFile> file; // of Control::file
	SegmentSettings segment;
	WindowSettings window;
	RecoverySettings recovery;
	TimeoutSettings timeout;
	AckSettings ack;
	TagSettings tag;
	ImplementationSettings tcp;
	HomaSettings homa;						  // of Control::homa
	std::function<std::shared_ptr<MessageTransport>()> make_messages; // of a transport from a file
	std::shared_ptr<MessageTransport> messages; // of a control that is not TCP's (policies.hpp)
	bool small_queues = false;		    // waiting data stays in the socket (pacing/small_queues.hpp)
	bool handshake = true;			    // a SYN and its SYN-ACK precede the data
	bool forgets_late = false;		    // past its deadline a flow continues as one without a deadline
};

} // namespace sluice
