// SPDX-License-Identifier: Apache-2.0
// The packets on a link, in the order in which they come to its end.
#pragma once

#include "packet.hpp"
#include "time.hpp"

namespace sluice
{

class Link
{
      public:
	bool empty() const
	{
		return !head_;
	}

	void push(Packet *packet, Time arrives_at)
	{
		packet->next = nullptr;
		packet->arrives_at = arrives_at;
		if (head_)
			tail_->next = packet;
		else
			head_ = packet;
		tail_ = packet;
	}

	// The first packet. The second one after it is fetched from memory meanwhile.
	Packet *pop()
	{
		Packet *packet = head_;

		head_ = packet->next;
		if (head_)
			__builtin_prefetch(head_->next, 1);
		return packet;
	}

	// The packet that is first now; there is one.
	const Packet &first() const
	{
		return *head_;
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
