// SPDX-License-Identifier: Apache-2.0
// A packet, and the pool that packets come from. A receiver turns a data packet into its acknowledgement in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "event/calendar.hpp"

namespace sluice
{

class Flow;

enum class PacketKind : std::uint8_t { Data, Ack, Syn, SynAck, RateRequest, RateGrant };

// 64 bytes, one cache line.
struct alignas(64) Packet {
	Packet *next = nullptr; // in the queue where it waits, or on the link
	PacketKind kind = PacketKind::Data;
	std::uint8_t tag = 0;
	std::uint8_t queue = 0;	     // at the port where it is
	bool ect = false;	     // takes marks
	bool ce = false;	     // has one; of an ACK: echoes one
	bool duplicate = false;	     // of an ACK: what it answers had arrived before (RFC 2883)
	bool last = false;	     // of its flow: what a FIN says
	bool window_reduced = false; // CWR (RFC 3168)
	std::uint16_t frame_bytes = 0;
	std::uint16_t destination = 0;	 // host
	std::uint32_t number = 0;	 // in the flow, from 0; of an ACK: of the packet that it answers
	std::uint32_t next_expected = 0; // of an ACK: all before this have arrived
	std::uint32_t remaining = 0;	 // packets that the flow still has to deliver (pFabric's priority)
	std::uint32_t arrival = 0; // running number at the port where it waits, if that serves the shortest first
	std::uint32_t path = 0;	   // what equal-cost links are chosen by
	Time sent_at = 0;	   // of an ACK: when the answered packet was sent
	Time arrives_at = 0;	   // at the end of the link
	Flow *flow = nullptr;
};
static_assert(sizeof(Packet) == 64);

// Packets in use are counted; memory is never given back before the pool goes.
class PacketPool
{
      public:
	Packet *take()
	{
		if (!free_)
			grow();
		Packet *packet = free_;

		free_ = packet->next;
		*packet = Packet{};
		in_use_++;
		return packet;
	}

	void put_back(Packet *packet)
	{
		packet->next = free_;
		free_ = packet;
		in_use_--;
	}

	std::size_t in_use() const
	{
		return in_use_;
	}

      private:
	static constexpr std::size_t CHUNK = 1024;

	void grow()
	{
		chunks_.push_back(std::make_unique<Packet[]>(CHUNK));
		for (std::size_t i = CHUNK; i--;) {
			chunks_.back()[i].next = free_;
			free_ = &chunks_.back()[i];
		}
	}

	std::vector<std::unique_ptr<Packet[]>> chunks_;
	Packet *free_ = nullptr;
	std::size_t in_use_ = 0;
};

// Packets in the order in which they came, linked by `next`.
class PacketList
{
      public:
	bool empty() const
	{
		return !head_;
	}

	Packet *front() const
	{
		return head_;
	}

	void push(Packet *packet, Time = 0)
	{
		packet->next = nullptr;
		if (head_)
			tail_->next = packet;
		else
			head_ = packet;
		tail_ = packet;
	}

	Packet *pop(Time = 0)
	{
		Packet *packet = head_;

		head_ = packet->next;
		__builtin_prefetch(head_, 1);
		return packet;
	}

	template <class Visit> void visit(Visit &&visit) const
	{
		for (const Packet *p = head_; p; p = p->next)
			visit(*p);
	}

      private:
	Packet *head_ = nullptr;
	Packet *tail_ = nullptr;
};

} // namespace sluice
