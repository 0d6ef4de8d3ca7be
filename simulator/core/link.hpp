// SPDX-License-Identifier: Apache-2.0
// The packets on a link, in the order in which they come to its end: a ring that grows.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "packet.hpp"
#include "time.hpp"

namespace sluice
{

class Link
{
      public:
	bool empty() const
	{
		return head_ == tail_;
	}

	// When the first packet comes to the end. There is one.
	Time first_at() const
	{
		return ring_[head_ & mask_].at;
	}

	void push(Packet *packet, Time at)
	{
		if (tail_ - head_ > mask_)
			grow();
		ring_[tail_++ & mask_] = {at, packet};
	}

	// The first packet. The second one after it is fetched from memory meanwhile.
	Packet *pop()
	{
		Packet *packet = ring_[head_++ & mask_].packet;

		if (tail_ - head_ > 1)
			__builtin_prefetch(ring_[(head_ + 1) & mask_].packet, 1);
		return packet;
	}

	// The packet that is first now; there is one.
	const Packet &first() const
	{
		return *ring_[head_ & mask_].packet;
	}

	template <class Visit> void visit(Visit &&visit) const
	{
		for (std::uint32_t i = head_; i != tail_; i++)
			visit(*ring_[i & mask_].packet);
	}

      private:
	struct Place {
		Time at;
		Packet *packet;
	};

	void grow()
	{
		std::uint32_t mask = 2 * mask_ + 1;
		auto larger = std::make_unique<Place[]>(mask + 1ULL);

		for (std::uint32_t i = head_; i != tail_; i++)
			larger[i & mask] = ring_[i & mask_];
		ring_ = std::move(larger);
		mask_ = mask;
	}

	static constexpr std::uint32_t PLACES = 16; // to begin with

	std::unique_ptr<Place[]> ring_ = std::make_unique<Place[]>(PLACES);
	std::uint32_t mask_ = PLACES - 1;
	std::uint32_t head_ = 0, tail_ = 0; // running counts
};

} // namespace sluice
