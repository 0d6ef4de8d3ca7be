// SPDX-License-Identifier: Apache-2.0
// The sender's scoreboard (RFC 6675, section 3): which packets are acknowledged, in flight, or
// lost and not yet retransmitted.
#pragma once

#include <algorithm>
#include <cstdint>

#include "packet/packet.hpp"
#include "transport/recovery/packet_states.hpp"

namespace sluice
{

// What an ACK says.
struct Delivery {
	std::uint32_t newly = 0;    // packets that it reports for the first time
	bool advances = false;	    // it acknowledges the first unacknowledged packet
	std::uint32_t advance = 0;  // packets by which the first unacknowledged packet moves
	bool was_overtaken = false; // the answered packet left once, before one that arrived earlier
};

class Scoreboard
{
      public:
	// The first packet that is not acknowledged.
	std::uint32_t una() const
	{
		return una_;
	}

	// The first packet that has never left.
	std::uint32_t next() const
	{
		return next_;
	}

	std::uint32_t in_flight() const
	{
		return in_flight_;
	}

	// Packets that are lost and not yet retransmitted.
	std::uint32_t lost() const
	{
		return lost_;
	}

	// Retransmissions that are in flight.
	std::uint32_t sent_again() const
	{
		return sent_again_;
	}

	// The highest packet that has arrived, plus one.
	std::uint32_t highest_delivered() const
	{
		return highest_delivered_;
	}

	PacketState at(std::uint32_t number) const
	{
		return states_.at(number);
	}

	bool is_under_way(std::uint32_t number) const
	{
		return at(number) == PacketState::Sent || at(number) == PacketState::SentAgain;
	}

	void on_sent(std::uint32_t number, bool again)
	{
		states_.cover(una_, number);
		states_.set(number, again ? PacketState::SentAgain : PacketState::Sent);
		if (again)
			sent_again_++;
		else
			next_ = number + 1;
		in_flight_++;
	}

	Delivery deliver(const Packet &ack)
	{
		Delivery delivery = {
			.newly = 0,
			.advances = una_ < ack.next_expected,
			.advance = una_ < ack.next_expected ? ack.next_expected - una_ : 0,
			.was_overtaken = is_overtaken(ack.number),
		};

		if (ack.number >= una_ && ack.number < next_)
			delivery.newly = deliver_one(ack.number);
		while (una_ < ack.next_expected) {
			delivery.newly += deliver_one(una_);
			states_.set(una_, PacketState::Sent); // frees the place in the ring
			una_++;
		}
		highest_delivered_ = std::max({highest_delivered_, una_, delivery.newly ? ack.number + 1 : 0});
		next_to_resend_ = std::max(next_to_resend_, una_);
		return delivery;
	}

	// A packet in flight is lost.
	void lose(std::uint32_t number)
	{
		sent_again_ -= at(number) == PacketState::SentAgain;
		states_.set(number, PacketState::Lost);
		next_to_resend_ = std::min(next_to_resend_, number);
		in_flight_--;
		lost_++;
	}

	void lose_all()
	{
		for (std::uint32_t number = una_; number != next_; number++)
			if (is_under_way(number))
				lose(number);
		next_to_resend_ = una_;
	}

	// No packet was lost after all: each lost one is in flight again. Calls `visit(number)`
	// for each.
	template <class Visit> void restore_lost(Visit &&visit)
	{
		for (std::uint32_t number = una_; lost_; number++) {
			if (at(number) != PacketState::Lost)
				continue;
			states_.set(number, PacketState::Sent);
			in_flight_++;
			lost_--;
			visit(number);
		}
	}

	// The packet that the connection sends next: the first lost one, otherwise a new one.
	std::uint32_t next_to_send() const
	{
		std::uint32_t number = next_to_resend_;

		if (!lost_)
			return next_;
		while (at(number) != PacketState::Lost)
			number++;
		return number;
	}

	// The first lost packet. It no longer counts as lost, because it is retransmitted now.
	std::uint32_t take_lost()
	{
		while (at(next_to_resend_) != PacketState::Lost)
			next_to_resend_++;
		lost_--;
		return next_to_resend_++;
	}

	// The last packet in flight.
	std::uint32_t last_under_way() const
	{
		std::uint32_t number = next_;

		do
			number--;
		while (at(number) == PacketState::Delivered);
		return number;
	}

	// The same. It no longer counts as in flight, because it is retransmitted now.
	std::uint32_t take_last()
	{
		std::uint32_t number = last_under_way();

		in_flight_--;
		sent_again_ -= at(number) == PacketState::SentAgain;
		return number;
	}

      private:
	bool is_overtaken(std::uint32_t number) const
	{
		return number >= una_ && number + 1 < highest_delivered_ && at(number) == PacketState::Sent;
	}

	std::uint32_t deliver_one(std::uint32_t number)
	{
		PacketState before = at(number);

		if (before == PacketState::Delivered)
			return 0;
		sent_again_ -= before == PacketState::SentAgain;
		if (before == PacketState::Lost)
			lost_--;
		else
			in_flight_--;
		states_.set(number, PacketState::Delivered);
		return 1;
	}

	std::uint32_t una_ = 0;
	std::uint32_t next_ = 0;
	std::uint32_t in_flight_ = 0;
	std::uint32_t lost_ = 0;
	std::uint32_t sent_again_ = 0;
	std::uint32_t next_to_resend_ = 0; // no lost packet is before this one
	std::uint32_t highest_delivered_ = 0;
	PacketStates states_;
};

} // namespace sluice
