// SPDX-License-Identifier: Apache-2.0
// pFabric (Alizadeh et al., SIGCOMM 2013, section 4.1). The port serves the flow with the fewest
// packets left, its earliest packet first. If the buffer is full, it drops a packet of the flow
// with the most packets left. Among equals the earlier arrival goes first. A switch's queue is
// short, but all packets of a host's flows may wait at its own port. The port therefore searches
// its flows, not its packets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "event/time.hpp"
#include "packet/packet.hpp"
#include "port/queueing.hpp"

namespace sluice
{

class ShortestFirst final : public Queueing
{
      public:
	void push(Packet *packet, Time) override
	{
		packet->arrival = arrivals_++;
		lane_of(*packet).push(packet);
	}

	Packet *pop(Time, unsigned paused) override
	{
		if (paused)
			return nullptr;
		auto lane = std::min_element(lanes_.begin(), lanes_.end(),
					     [](const Lane &a, const Lane &b) { return a.least < b.least; });

		return take(lane, lane->packets.front());
	}

	bool empty() const override
	{
		return lanes_.empty();
	}

	Packet *displaced(Packet *arriving) override
	{
		auto from = lanes_.end();
		Packet *most = nullptr;

		for (auto lane = lanes_.begin(); lane != lanes_.end(); ++lane) {
			Packet *of_lane =
				*std::min_element(lane->packets.begin(), lane->packets.end(), is_dropped_before);

			if (most && !is_dropped_before(of_lane, most))
				continue;
			from = lane;
			most = of_lane;
		}
		return !most || arriving->remaining >= most->remaining ? arriving : take(from, most);
	}

	void visit(const std::function<void(const Packet &)> &visit) const override
	{
		for (const Lane &lane : lanes_)
			for (const Packet *packet : lane.packets)
				visit(*packet);
	}

      private:
	using Rank = std::pair<std::uint32_t, std::uint64_t>; // packets left, arrival

	// The packets of one flow that are of one kind.
	struct Lane {
		const CarriedFlow *flow;
		PacketKind kind;
		Rank least;
		std::vector<Packet *> packets; // in the order of arrival

		void push(Packet *packet)
		{
			Rank rank = {packet->remaining, packet->arrival};

			least = packets.empty() ? rank : std::min(least, rank);
			packets.push_back(packet);
		}

		void remove(Packet *packet)
		{
			packets.erase(std::find(packets.begin(), packets.end(), packet));
			if (packet->arrival != least.second)
				return;
			least = {UINT32_MAX, UINT64_MAX};
			for (const Packet *other : packets)
				least = std::min(least, Rank{other->remaining, other->arrival});
		}
	};

	static bool is_dropped_before(const Packet *packet, const Packet *other)
	{
		return packet->remaining != other->remaining ? packet->remaining > other->remaining
							     : packet->arrival < other->arrival;
	}

	Lane &lane_of(const Packet &packet)
	{
		for (Lane &lane : lanes_)
			if (lane.flow == packet.flow && lane.kind == packet.kind)
				return lane;
		lanes_.push_back({packet.flow, packet.kind, {}, {}});
		return lanes_.back();
	}

	Packet *take(std::vector<Lane>::iterator lane, Packet *packet)
	{
		lane->remove(packet);
		if (lane->packets.empty()) {
			std::swap(*lane, lanes_.back());
			lanes_.pop_back();
		}
		return packet;
	}

	std::vector<Lane> lanes_;
	std::uint64_t arrivals_ = 0;
};

} // namespace sluice
