// SPDX-License-Identifier: Apache-2.0
// What one part of a network has posted to another: packets, with the crossing that they come by.
//
// If the other part runs later in the same window, there is one box, which it empties in that window. Otherwise
// one box is filled in a window while the other one is emptied, so that no two threads touch a packet at once.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "packet/packet_list.hpp"

namespace sluice
{

class Crossing;

class Mailbox
{
      public:
	struct Mail {
		Crossing *crossing;
		PacketList packets; // in the order in which they arrive
	};

	Mailbox(std::uint16_t part, bool same_window) : far_part_(part), same_window_(same_window)
	{
	}

	std::uint16_t far_part() const
	{
		return far_part_;
	}

	// The far part runs after the near one in each window.
	bool is_of_same_window() const
	{
		return same_window_;
	}

	void post(Crossing &crossing, const PacketList &packets, bool turn)
	{
		box(turn).push_back({&crossing, packets});
	}

	// Empties the box of this turn.
	template <class Take> void fetch(bool turn, Take &&take)
	{
		for (const Mail &mail : box(turn))
			take(*mail.crossing, mail.packets);
		box(turn).clear();
	}

	template <class Visit> void visit(Visit &&visit) const
	{
		for (const Box &box : boxes_)
			for (const Mail &mail : box.mail)
				mail.packets.visit(visit);
	}

      private:
	// Different threads write the two boxes.
	struct alignas(64) Box {
		std::vector<Mail> mail;
	};

	std::vector<Mail> &box(bool turn)
	{
		return boxes_[!same_window_ && turn].mail;
	}

	const std::uint16_t far_part_;
	const bool same_window_;
	std::array<Box, 2> boxes_;
};

} // namespace sluice
