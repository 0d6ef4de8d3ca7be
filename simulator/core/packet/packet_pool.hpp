// SPDX-License-Identifier: Apache-2.0
// The pool that packets come from. It counts packets in use, and frees its memory only when it is
// destroyed.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "packet/packet.hpp"

namespace sluice
{

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

} // namespace sluice
