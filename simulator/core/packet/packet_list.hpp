// SPDX-License-Identifier: Apache-2.0
// Packets in the order of their arrival, linked by `next`.
#pragma once

#include "packet/packet.hpp"

namespace sluice
{

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
		Packet **end = head_ ? &tail_->next : &head_; // by no branch, because none could be foreseen

		packet->next = nullptr;
		*end = packet;
		tail_ = packet;
	}

	Packet *pop(Time = 0)
	{
		Packet *packet = head_;

		head_ = packet->next;
		__builtin_prefetch(head_, 1);
		return packet;
	}

	// Adds the packets of another list behind its own.
	void append(const PacketList &others)
	{
		if (others.empty())
			return;
		if (head_)
			tail_->next = others.head_;
		else
			head_ = others.head_;
		tail_ = others.tail_;
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
