// SPDX-License-Identifier: Apache-2.0
// Which port a switch sends a packet to: of the equal-cost ones, one by the flow (hash) or each in turn (per packet).
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "packet/packet.hpp"
#include "port/port.hpp"
#include "world/world.hpp"

namespace sluice
{

class Routing
{
      public:
	Routing(std::size_t switches, std::size_t hosts, bool per_packet)
	    : hosts_(hosts), per_packet_(per_packet), group_of_(switches * hosts, 0), groups_(1)
	{
	}

	// A set of equal-cost ports, up to 65,535; returns its number.
	std::uint16_t add_group(const std::vector<Port *> &ports)
	{
		if (ports.empty() || ports.size() > UINT16_MAX || groups_.size() > UINT16_MAX)
			throw std::invalid_argument("a group has a port at least, and there are up to 65,535 groups");
		groups_.push_back(
			{static_cast<std::uint32_t>(ports_.size()), static_cast<std::uint16_t>(ports.size()), 0});
		ports_.insert(ports_.end(), ports.begin(), ports.end());
		return static_cast<std::uint16_t>(groups_.size() - 1);
	}

	// Towards `host`, switch `from` has the ports of this group.
	void set(std::uint16_t from, std::uint16_t host, std::uint16_t group)
	{
		if (host >= hosts_ || !group || group >= groups_.size())
			throw std::invalid_argument("a route leads to a host, by a group that was added");
		group_of_.at(from * hosts_ + host) = group;
	}

	// The way on from switch `at`. Throws std::invalid_argument when there is none.
	Port &next(const Packet &packet, std::uint16_t at)
	{
		Group &group = groups_[group_of_[at * hosts_ + packet.destination]];

		return *ports_[group.first + (group.count == 1 ? 0 : choose(group, packet, at))];
	}

      private:
	// A set of equal-cost ports, as a part of `ports_`.
	struct Group {
		std::uint32_t first = 0;
		std::uint16_t count = 0;
		std::uint16_t turn = 0;
	};

	std::uint64_t choose(Group &group, const Packet &packet, std::uint16_t at) const
	{
		if (!group.count)
			throw std::invalid_argument("switch " + std::to_string(at) + " has no way to host " +
						    std::to_string(packet.destination));
		if (per_packet_)
			return group.turn = group.turn + 1 < group.count ? group.turn + 1 : 0;
		return hash(packet.path, at) * group.count >> 32;
	}

	// 32 bits, of each switch its own: else all flows that meet at one went the same way before, and would go on together.
	static std::uint64_t hash(std::uint32_t path, std::uint16_t at)
	{
		return Random(static_cast<std::uint64_t>(at) << 32 | path).next32();
	}

	std::size_t hosts_;
	bool per_packet_;
	std::vector<std::uint16_t> group_of_;
	std::vector<Port *> ports_;
	std::vector<Group> groups_; // the first one is empty: no way
};

} // namespace sluice
