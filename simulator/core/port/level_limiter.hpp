// SPDX-License-Identifier: Apache-2.0
// A host's limiter of QJUMP: at each limited level, at most so many bytes in each network epoch, of all the host's flows
// together. Source: Grosvenor et al., "Queues don't matter when you can JUMP them!", NSDI 2015, sections 3 and 4;
// policy/schemes/epochs.py derives epoch and bytes. The tag of a packet is its level, from 1 on.
//
// Epochs follow each other from time 0 on, whatever is sent. So a host may send its bytes at the end of an epoch and
// again at the beginning of the next one, which is the reason for the factor 2 in the epoch.
#pragma once

#include <array>
#include <cstdint>

#include "event/calendar.hpp"
#include "event/time.hpp"
#include "laws/tags.gen.h"
#include "packet/packet.hpp"
#include "packet/packet_list.hpp"

namespace sluice
{

class Port;

constexpr unsigned MAX_LIMITED_LEVELS = 7; // the lowest of eight has no limit

struct LevelLimits {
	Time epoch = 0;						  // 0: no limits
	std::array<std::uint64_t, MAX_LIMITED_LEVELS> bytes = {}; // in an epoch, by level; 0: no limit

	bool operator==(const LevelLimits &other) const = default;
};

// As an event, it is the beginning of the next epoch, while packets wait here for it.
class LevelLimiter : public Event
{
      public:
	explicit LevelLimiter(Port &port) : Event{.kind = EventKind::NetworkEpoch}, port_(port)
	{
	}

	// Takes a packet that enters the port: it goes on at once, waits for its epoch, or finds no room to wait.
	void accept(Packet *packet);

	// An epoch has begun.
	void on_event();

	// The limits have changed: sends what may leave now.
	void release();

	// When the next packet may go on that waits here; NEVER if none waits.
	Time next() const
	{
		return is_awaited_ ? at : NEVER;
	}

	template <class Visit> void visit(Visit &&visit) const
	{
		for (const Level &level : levels_)
			level.waiting.visit(visit);
	}

      private:
	struct Level {
		PacketList waiting;
		std::uint64_t waiting_bytes = 0;
		std::uint64_t used_bytes = 0; // in this epoch
	};

	void begin_epoch();
	bool may_leave(const Level &level, std::uint64_t limit_bytes, const Packet &packet) const;
	void await();

	Port &port_;
	std::array<Level, MAX_LIMITED_LEVELS> levels_;
	Time epoch_ = 0; // the number of the epoch that `used_bytes` count in
	bool is_awaited_ = false;
};

} // namespace sluice
