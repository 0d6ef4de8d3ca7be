// SPDX-License-Identifier: Apache-2.0
// The near end of a link that leads to other parts of the network. Packets that reach a switch by one link
// may leave it by ports of several parts, so the outlet has an exit to each of these parts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "event/time.hpp"
#include "fabric/crossing.hpp"
#include "fabric/mailbox.hpp"
#include "packet/packet.hpp"
#include "packet/packet_list.hpp"
#include "port/port.hpp"
#include "routing/routing.hpp"

namespace sluice
{

class Outlet
{
      public:
	struct Exit {
		Crossing *crossing;
		Mailbox *mailbox;
		PacketList sorted; // empty between two calls
	};

	Outlet(Port &port, std::vector<Exit> exits) : port_(port), exits_(std::move(exits))
	{
	}

	// After a window: posts what has departed by `limit`. Returns when the first of the packets for the next
	// window arrives; NEVER if there is none.
	Time post(Time limit, bool turn, const Routing &routing)
	{
		PacketList departed = port_.take_departures(limit);

		if (departed.empty())
			return NEVER;
		if (exits_.size() == 1)
			return post_by(exits_.front(), departed, turn);
		while (!departed.empty()) {
			Packet *packet = departed.pop();

			exit_to(routing.part_of_next(*packet, port_.peer())).sorted.push(packet);
		}
		return post_sorted(turn);
	}

	// When the next packet departs that has not been posted; NEVER if none waits.
	Time next_departure() const
	{
		return port_.next_departure();
	}

	// Whether a packet that comes after that time departs as soon as it comes.
	bool is_idle(Time after) const
	{
		return port_.is_idle(after);
	}

	// The shortest time in which a packet enters the link and reaches its far end in a later window; NEVER if
	// none does.
	Time lookahead(std::uint32_t frame_bytes) const
	{
		auto is_of_same_window = [](const Exit &exit) { return exit.mailbox->is_of_same_window(); };

		return std::all_of(exits_.begin(), exits_.end(), is_of_same_window)
			       ? NEVER
			       : port_.least_passage(frame_bytes);
	}

	bool is_watched = false; // by its part

      private:
	// Returns when the first packet arrives, unless the far part takes it in this window.
	static Time post_by(const Exit &exit, const PacketList &packets, bool turn)
	{
		exit.mailbox->post(*exit.crossing, packets, turn);
		return exit.mailbox->is_of_same_window() ? NEVER : packets.front()->arrives_at;
	}

	Time post_sorted(bool turn)
	{
		Time arrival = NEVER;

		for (Exit &exit : exits_) {
			PacketList packets = std::exchange(exit.sorted, {});

			if (!packets.empty())
				arrival = std::min(arrival, post_by(exit, packets, turn));
		}
		return arrival;
	}

	// A packet without a route goes by any exit. The far part reports it.
	Exit &exit_to(std::uint16_t part)
	{
		for (Exit &exit : exits_)
			if (exit.mailbox->far_part() == part)
				return exit;
		return exits_.front();
	}

	Port &port_;
	std::vector<Exit> exits_;
};

} // namespace sluice
