// SPDX-License-Identifier: Apache-2.0
// The buffer that all ports of a switch share, and priority flow control (PFC, IEEE 802.1Qbb).
//
// Dynamic thresholds divide the buffer (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet
// switches", IEEE/ACM Transactions on Networking 6(2), 1998):
//
//   a packet has room   if   bytes of its account + its own <= alpha * (size - bytes of all accounts)
//
// Without PFC, each queue of each port has an account, and a packet without room is dropped. With PFC, each link into
// the switch has an account for each priority of the port at its far end, and headroom, which is not a part of the size:
//
//   pause    a packet without room goes to the headroom; the far end stops to send that priority
//   resume   the headroom is empty, and bytes of the account + margin <= the threshold, or there are none
//
// A packet is dropped if its headroom is full. It leaves its account when it begins to leave the switch.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "event/calendar.hpp"
#include "event/time.hpp"

namespace sluice
{

class Port;

class SharedBuffer
{
      public:
	SharedBuffer(std::uint64_t bytes, std::uint32_t alpha_q16, bool of_pfc, std::uint64_t margin_bytes)
	    : pfc(of_pfc), bytes_(bytes), alpha_q16_(alpha_q16), margin_bytes_(margin_bytes)
	{
	}

	// Adds an account for each queue, and returns the number of the first. With PFC, `far_end` is told to pause.
	std::uint32_t add_accounts(Port *far_end, std::uint64_t headroom_bytes);

	// False if the packet must be dropped.
	bool admit(std::uint32_t account, std::uint32_t frame_bytes);
	void release(std::uint32_t account, std::uint32_t frame_bytes);

	// With what waits in headroom.
	std::uint64_t held_bytes() const
	{
		return used_bytes_ + headroom_bytes_;
	}

	const bool pfc;

      private:
	struct Account {
		Port *far_end;
		std::uint64_t most_headroom_bytes;
		std::uint64_t bytes = 0;
		std::uint64_t headroom_bytes = 0;
		bool is_paused = false;
	};

	bool has_room(const Account &account, std::uint64_t more_bytes) const;
	void tell_far_end(std::uint32_t number, bool pause);

	const std::uint64_t bytes_, alpha_q16_, margin_bytes_;
	std::uint64_t used_bytes_ = 0, headroom_bytes_ = 0; // of all accounts
	std::vector<Account> accounts_;
};

struct PortEvent : Event {
	Port *port = nullptr;
};

// What flow control adds to a port.
struct FlowControl {
	struct Frame {
		Time arrives_at;
		std::uint8_t queue;
		bool pause; // false: its end
	};

	explicit FlowControl(Port *of)
	    : departure{{.kind = EventKind::Departure}, of}, frame{{.kind = EventKind::PauseFrame}, of}
	{
	}

	SharedBuffer *buffer = nullptr; // of the port's switch; nullptr: it has a buffer of its own
	// Of the first queue: with PFC in the buffer at the far end of the link, otherwise in that of the port's switch.
	std::uint32_t account = 0;
	unsigned paused = 0; // a bit for each queue
	std::uint64_t pauses = 0;
	std::deque<Frame> frames; // under way to this port
	PortEvent departure, frame;
	bool awaits_departure = false;
};

} // namespace sluice
