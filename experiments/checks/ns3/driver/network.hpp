// SPDX-License-Identifier: Apache-2.0
// Nodes, links, queues and routes of an Input, as ns-3 objects.
#pragma once

#include <vector>

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/point-to-point-module.h"

#include "input.hpp"
#include "marking_queue.hpp"
#include "routes.hpp"

class Network
{
      public:
	explicit Network(const Input &input)
	{
		nodes_.Create(input.hosts + input.switches);
		install_stack();
		for (std::uint32_t i = 0; i < nodes_.GetN(); i++) {
			routes_.push_back(ns3::CreateObject<HashedRoutes>());
			routes_[i]->set_number(i < input.hosts ? 0 : i - input.hosts);
			nodes_.Get(i)->GetObject<ns3::Ipv4>()->SetRoutingProtocol(routes_[i]);
		}
		for (const LinkLine &link : input.links)
			connect(link, input);
		for (const RouteLine &route : input.routes) {
			std::vector<ns3::Ptr<ns3::NetDevice>> devices;
			for (std::uint32_t link : route.links)
				devices.push_back(device_at(link, input.links[link].a == route.at));
			routes_[route.at]->set_route(route.host, devices);
		}
	}

	ns3::Ptr<ns3::Node> node(std::uint32_t i) const
	{
		return nodes_.Get(i);
	}

	const std::vector<ns3::Ptr<MarkingQueue>> &queues() const
	{
		return queues_;
	}

	// The device at the first or second end of a link.
	const MarkingQueue &queue(std::uint32_t link, bool first) const
	{
		return *queues_.at(2 * link + !first);
	}

      private:
	void install_stack()
	{
		ns3::InternetStackHelper stack;

		stack.SetIpv6StackInstall(false);
		stack.Install(nodes_);
	}

	void connect(const LinkLine &link, const Input &input)
	{
		ns3::PointToPointHelper helper;

		helper.SetDeviceAttribute("DataRate", ns3::DataRateValue(ns3::DataRate(link.bps)));
		helper.SetDeviceAttribute("Mtu", ns3::UintegerValue(9000)); // padding counts
		helper.SetChannelAttribute("Delay", ns3::TimeValue(ns3::PicoSeconds(link.delay_ps)));
		helper.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", ns3::StringValue("1p"));
		ns3::NetDeviceContainer ends = helper.Install(nodes_.Get(link.a), nodes_.Get(link.b));
		QueueSettings settings = {
			.header_bytes = static_cast<std::uint32_t>(input.setting("header_bytes")),
			.mark_bytes = static_cast<std::uint64_t>(input.setting("mark_bytes")),
			.buffer_bytes = static_cast<std::uint64_t>(input.setting("buffer_bytes")),
		};
		for (unsigned end = 0; end < 2; end++)
			set_up(end ? link.b : link.a, ends.Get(end), settings, input.hosts);
	}

	void set_up(std::uint32_t node, ns3::Ptr<ns3::NetDevice> device, const QueueSettings &settings,
		    std::uint32_t hosts)
	{
		auto ipv4 = nodes_.Get(node)->GetObject<ns3::Ipv4>();
		std::uint32_t interface = ipv4->AddInterface(device);
		bool is_host = node < hosts;
		ns3::Ipv4Address address =
			is_host ? address_of_host(node) : ns3::Ipv4Address((172U << 24) + addresses_++);

		ipv4->AddAddress(interface, ns3::Ipv4InterfaceAddress(address, ns3::Ipv4Mask::GetOnes()));
		ipv4->SetUp(interface);
		if (is_host)
			routes_[node]->set_only(device);
		auto queue = ns3::CreateObject<MarkingQueue>();
		queue->set(settings, ns3::DynamicCast<ns3::PointToPointNetDevice>(device));
		nodes_.Get(node)->GetObject<ns3::TrafficControlLayer>()->SetRootQueueDiscOnDevice(device, queue);
		queues_.push_back(queue);
		devices_.push_back(device);
	}

	ns3::Ptr<ns3::NetDevice> device_at(std::uint32_t link, bool first) const
	{
		return devices_.at(2 * link + !first);
	}

	ns3::NodeContainer nodes_;
	std::vector<ns3::Ptr<HashedRoutes>> routes_;
	std::vector<ns3::Ptr<ns3::NetDevice>> devices_; // two for each link
	std::vector<ns3::Ptr<MarkingQueue>> queues_;	// the same
	std::uint32_t addresses_ = 1;
};
