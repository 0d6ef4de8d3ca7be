// SPDX-License-Identifier: Apache-2.0
// The pool that packets come from. It counts packets in use, and frees its memory only when it is
// destroyed. A part of a network has a pool of its own, to which packets from other parts may return.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "packet/packet.hpp"

namespace sluice
{

// Free packets of which one pool had too many, for the others.
class PacketDepot
{
      public:
	void put(Packet *first)
	{
		std::lock_guard lock(mutex_);

		chains_.push_back(first);
	}

	// nullptr if there are none.
	Packet *take()
	{
		std::lock_guard lock(mutex_);

		if (chains_.empty())
			return nullptr;
		Packet *first = chains_.back();

		chains_.pop_back();
		return first;
	}

      private:
	std::mutex mutex_;
	std::vector<Packet *> chains_; // each as long as a pool's chunk, linked by `next`
};

class PacketPool
{
      public:
	explicit PacketPool(PacketDepot *depot = nullptr) : depot_(depot)
	{
	}

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

	// Packets that were taken less those that were put back. The pools of all parts count together.
	std::size_t in_use() const
	{
		return in_use_;
	}

	// Hands free packets on if many have come from other parts.
	void share_surplus()
	{
		while (depot_ && static_cast<std::ptrdiff_t>(owned_ - in_use_) > SURPLUS)
			depot_->put(take_chain());
	}

      private:
	static constexpr std::size_t CHUNK = 1024;
	static constexpr std::ptrdiff_t SURPLUS = 3 * CHUNK;

	Packet *take_chain()
	{
		Packet *first = free_, *last = first;

		for (std::size_t i = 1; i < CHUNK; i++)
			last = last->next;
		free_ = std::exchange(last->next, nullptr);
		owned_ -= CHUNK;
		return first;
	}

	void grow()
	{
		owned_ += CHUNK;
		free_ = depot_ ? depot_->take() : nullptr;
		if (free_)
			return;
		chunks_.push_back(std::make_unique<Packet[]>(CHUNK));
		for (std::size_t i = CHUNK; i--;) {
			chunks_.back()[i].next = free_;
			free_ = &chunks_.back()[i];
		}
	}

	std::vector<std::unique_ptr<Packet[]>> chunks_;
	Packet *free_ = nullptr;
	std::size_t in_use_ = 0;
	std::size_t owned_ = 0; // in use or free
	PacketDepot *depot_;
};

} // namespace sluice
