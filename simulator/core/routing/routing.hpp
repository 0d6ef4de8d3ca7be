// SPDX-License-Identifier: Apache-2.0
// The port by which a switch sends a packet. Among equal-cost ports, a hash of the flow chooses
// one, or packets take them in turn (packet spraying).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "packet/packet.hpp"
#include "port/port.hpp"
#include "world/random.hpp"

namespace sluice
{

class Routing
{
      public:
	// path_salt: another one gives each flow other paths.
	Routing(std::size_t switches, std::size_t hosts, bool per_packet, std::uint32_t path_salt)
	    : hosts_(hosts), per_packet_(per_packet), path_salt_(path_salt), group_of_(switches * hosts, 0),
	      groups_(1), part_of_group_(1, 0)
	{
	}

	// Adds a group of up to 65,535 equal-cost ports, all of one part of the network; returns its number,
	// which is never 0.
	std::uint16_t add_group(const std::vector<Port *> &ports, std::uint16_t part)
	{
		if (ports.empty() || ports.size() > UINT16_MAX || groups_.size() > UINT16_MAX)
			throw std::invalid_argument("add_group: ports must name 1 to 65,535 ports, and a fabric has "
						    "at most 65,535 groups");
		groups_.push_back({place_of(ports), static_cast<std::uint16_t>(ports.size()), 0});
		part_of_group_.push_back(part);
		return static_cast<std::uint16_t>(groups_.size() - 1);
	}

	// Switch `from` sends packets for `host` by the ports of this group.
	void set(std::uint16_t from, std::uint16_t host, std::uint16_t group)
	{
		if (host >= hosts_ || !group || group >= groups_.size())
			throw std::invalid_argument(
				"set_route: give a host of the fabric and a group that add_group returned");
		group_of_.at(from * hosts_ + host) = group;
	}

	// The port by which switch `at` forwards the packet. Throws std::invalid_argument if the
	// switch has no route.
	Port &next(const Packet &packet, std::uint16_t at)
	{
		Group &group = groups_[group_of_[at * hosts_ + packet.destination]];

		return *ports_[group.first + (group.count == 1 ? 0 : choose(group, packet, at))];
	}

	// The part of the network to which the ports belong by which switch `at` may forward the packet. 0 if the
	// switch has no route.
	std::uint16_t part_of_next(const Packet &packet, std::uint16_t at) const
	{
		return part_of_group_[group_of_[at * hosts_ + packet.destination]];
	}

      private:
	// Equal-cost ports: a range of `ports_`.
	struct Group {
		std::uint32_t first = 0;
		std::uint16_t count = 0;
		std::uint16_t turn = 0;
	};

	// Where these ports are in `ports_`. A switch reaches most hosts by the same ports, so that these are
	// there only once.
	std::uint32_t place_of(const std::vector<Port *> &ports)
	{
		auto [known, is_new] = places_.try_emplace(ports, static_cast<std::uint32_t>(ports_.size()));

		if (is_new)
			ports_.insert(ports_.end(), ports.begin(), ports.end());
		return known->second;
	}

	std::uint64_t choose(Group &group, const Packet &packet, std::uint16_t at) const
	{
		if (!group.count)
			throw std::invalid_argument("switch " + std::to_string(at) + " has no route to host " +
						    std::to_string(packet.destination) +
						    ": call set_route for every switch and host");
		if (per_packet_)
			return group.turn = static_cast<std::uint16_t>((group.turn + 1) *
								       (group.turn + 1 < group.count)); // no branch
		return hash(packet.path ^ path_salt_, at) * group.count >> 32;
	}

	// 32 bits. Each switch has its own hash, because flows that meet at a switch were sent
	// there by equal hashes before.
	static std::uint64_t hash(std::uint32_t path, std::uint16_t at)
	{
		return Random(static_cast<std::uint64_t>(at) << 32 | path).next32();
	}

	std::size_t hosts_;
	bool per_packet_;
	std::uint32_t path_salt_;
	std::vector<std::uint16_t> group_of_;
	std::vector<Port *> ports_;
	std::vector<Group> groups_; // the first group is empty: no route
	std::vector<std::uint16_t> part_of_group_;
	std::map<std::vector<Port *>, std::uint32_t> places_;
};

} // namespace sluice
