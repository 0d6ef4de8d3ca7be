// SPDX-License-Identifier: Apache-2.0
// pFabric (Alizadeh et al., SIGCOMM 2013, section 4.1): the flow with the fewest packets to go is served, its earliest packet
// first; when the buffer is full, the packet of the flow with the most to go is dropped. The queue is short, so both look
// at all of it.
#pragma once

#include <algorithm>
#include <vector>

#include "queueing.hpp"

namespace sluice
{

class ShortestFirst final : public Queueing
{
      public:
	void push(Packet *packet, Time) override
	{
		waiting_.push_back(packet);
	}

	Packet *pop(Time) override
	{
		auto least = std::min_element(waiting_.begin(), waiting_.end(), fewer_to_go);
		auto earliest = std::find_if(waiting_.begin(), least, [least](const Packet *p) {
			return p->flow == (*least)->flow && p->kind == (*least)->kind;
		});

		return take(earliest);
	}

	bool empty() const override
	{
		return waiting_.empty();
	}

	Packet *displaced(Packet *arriving) override
	{
		auto most = std::max_element(waiting_.begin(), waiting_.end(), fewer_to_go);

		return most == waiting_.end() || !fewer_to_go(arriving, *most) ? arriving : take(most);
	}

	void visit(const std::function<void(const Packet &)> &visit) const override
	{
		for (const Packet *packet : waiting_)
			visit(*packet);
	}

      private:
	static bool fewer_to_go(const Packet *a, const Packet *b)
	{
		return a->remaining < b->remaining;
	}

	Packet *take(std::vector<Packet *>::iterator at)
	{
		Packet *packet = *at;

		waiting_.erase(at);
		return packet;
	}

	std::vector<Packet *> waiting_; // in the order of arrival
};

} // namespace sluice
