// SPDX-License-Identifier: Apache-2.0
// Routes as in the simulator (simulator/core/routing/routing.hpp): a hash of the flow chooses
// among equal-cost links. So every flow has the same path in both simulators. The sender's TCP
// port identifies the flow.
#pragma once

#include <cstdint>
#include <vector>

#include "ns3/internet-module.h"

constexpr std::uint16_t SINK_PORT = 9;
constexpr std::uint16_t FIRST_SOURCE_PORT = 1024;

inline ns3::Ipv4Address address_of_host(std::uint32_t host)
{
	return ns3::Ipv4Address((10U << 24) + host + 1);
}

inline std::uint32_t host_of(ns3::Ipv4Address address)
{
	return address.Get() - (10U << 24) - 1;
}

class HashedRoutes : public ns3::Ipv4RoutingProtocol
{
      public:
	static ns3::TypeId GetTypeId()
	{
		static ns3::TypeId type = ns3::TypeId("sluice::HashedRoutes")
						  .SetParent<ns3::Ipv4RoutingProtocol>()
						  .AddConstructor<HashedRoutes>();
		return type;
	}

	// `number` is the switch's, counted from 0.
	void set_number(std::uint32_t number)
	{
		number_ = number;
	}

	void set_route(std::uint32_t host, std::vector<ns3::Ptr<ns3::NetDevice>> devices)
	{
		if (host >= devices_.size())
			devices_.resize(host + 1);
		devices_[host] = std::move(devices);
	}

	// Of hosts, which have one device for all destinations.
	void set_only(ns3::Ptr<ns3::NetDevice> device)
	{
		only_ = device;
	}

	ns3::Ptr<ns3::Ipv4Route> RouteOutput(ns3::Ptr<ns3::Packet>, const ns3::Ipv4Header &header,
					     ns3::Ptr<ns3::NetDevice>, ns3::Socket::SocketErrno &error) override
	{
		error = ns3::Socket::ERROR_NOTERROR;
		return by(only_, header.GetDestination());
	}

	bool RouteInput(ns3::Ptr<const ns3::Packet> packet, const ns3::Ipv4Header &header,
			ns3::Ptr<const ns3::NetDevice> in, const UnicastForwardCallback &forward,
			const MulticastForwardCallback &, const LocalDeliverCallback &deliver,
			const ErrorCallback &) override
	{
		std::int32_t interface = ipv4_->GetInterfaceForDevice(in);

		if (ipv4_->IsDestinationAddress(header.GetDestination(), interface))
			deliver(packet, header, interface);
		else
			forward(by(choose(*packet, header.GetDestination()), header.GetDestination()), packet,
				header);
		return true;
	}

	void NotifyInterfaceUp(std::uint32_t) override
	{
	}

	void NotifyInterfaceDown(std::uint32_t) override
	{
	}

	void NotifyAddAddress(std::uint32_t, ns3::Ipv4InterfaceAddress) override
	{
	}

	void NotifyRemoveAddress(std::uint32_t, ns3::Ipv4InterfaceAddress) override
	{
	}

	void SetIpv4(ns3::Ptr<ns3::Ipv4> ipv4) override
	{
		ipv4_ = ipv4;
	}

	void PrintRoutingTable(ns3::Ptr<ns3::OutputStreamWrapper>, ns3::Time::Unit) const override
	{
	}

      private:
	ns3::Ptr<ns3::Ipv4Route> by(ns3::Ptr<ns3::NetDevice> device, ns3::Ipv4Address destination) const
	{
		auto route = ns3::Create<ns3::Ipv4Route>();

		route->SetDestination(destination);
		route->SetGateway(ns3::Ipv4Address::GetZero());
		route->SetSource(ipv4_->GetAddress(ipv4_->GetInterfaceForDevice(device), 0).GetLocal());
		route->SetOutputDevice(device);
		return route;
	}

	ns3::Ptr<ns3::NetDevice> choose(const ns3::Packet &packet, ns3::Ipv4Address destination) const
	{
		const auto &devices = devices_.at(host_of(destination));

		return devices[hash(path_of(packet)) * devices.size() >> 32];
	}

	// SplitMix64, one step (simulator/core/world/world.hpp), over the switch and the flow.
	std::uint64_t hash(std::uint32_t path) const
	{
		std::uint64_t z = (static_cast<std::uint64_t>(number_) << 32 | path) + 0x9E3779B97F4A7C15ULL;

		z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ULL;
		z = (z ^ z >> 27) * 0x94D049BB133111EBULL;
		return (z ^ z >> 31) >> 32;
	}

	// Data and acknowledgements have separate paths: the receiver's is hashed from the inverted
	// number of the flow.
	static std::uint32_t path_of(const ns3::Packet &packet)
	{
		std::uint8_t ports[4];

		packet.CopyData(ports, sizeof ports);
		std::uint16_t from = ports[0] << 8 | ports[1], to = ports[2] << 8 | ports[3];
		std::uint64_t flow =
			from == SINK_PORT ? ~std::uint64_t(to - FIRST_SOURCE_PORT) : from - FIRST_SOURCE_PORT;

		return static_cast<std::uint32_t>(flow * 0x9E3779B97F4A7C15ULL >> 32);
	}

	ns3::Ptr<ns3::Ipv4> ipv4_;
	std::uint32_t number_ = 0;
	std::vector<std::vector<ns3::Ptr<ns3::NetDevice>>> devices_;
	ns3::Ptr<ns3::NetDevice> only_;
};
