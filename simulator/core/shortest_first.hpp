// SPDX-License-Identifier: Apache-2.0
// pFabric (Alizadeh et al., SIGCOMM 2013, section 4.1): the flow with the fewest packets to go is served, its earliest packet
// first; when the buffer is full, the packet of the flow with the most to go is dropped. A switch's queue is short, so both
// look at all of it. A sender's own is not: what is looked at lies side by side.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "queueing.hpp"

namespace sluice
{

class ShortestFirst final : public Queueing
{
      public:
	void push(Packet *packet, Time) override
	{
		to_go_.push_back(packet->remaining);
		flows_.push_back(packet->flow);
		packets_.push_back(packet);
	}

	Packet *pop(Time) override
	{
		std::size_t least = std::min_element(to_go_.begin(), to_go_.end()) - to_go_.begin();
		std::size_t earliest = 0;

		while (flows_[earliest] != flows_[least] || packets_[earliest]->kind != packets_[least]->kind)
			++earliest;
		return take(earliest);
	}

	bool empty() const override
	{
		return packets_.empty();
	}

	Packet *displaced(Packet *arriving) override
	{
		auto most = std::max_element(to_go_.begin(), to_go_.end());

		return most == to_go_.end() || arriving->remaining >= *most ? arriving : take(most - to_go_.begin());
	}

	void visit(const std::function<void(const Packet &)> &visit) const override
	{
		for (const Packet *packet : packets_)
			visit(*packet);
	}

      private:
	Packet *take(std::size_t at)
	{
		Packet *packet = packets_[at];

		to_go_.erase(to_go_.begin() + at);
		flows_.erase(flows_.begin() + at);
		packets_.erase(packets_.begin() + at);
		return packet;
	}

	// Of what waits, in the order of arrival.
	std::vector<std::uint32_t> to_go_;
	std::vector<const Flow *> flows_;
	std::vector<Packet *> packets_;
};

} // namespace sluice
