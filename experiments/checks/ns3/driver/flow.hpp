// SPDX-License-Identifier: Apache-2.0
// A flow over a TCP connection of its own, as in the simulator. The sender writes all bytes at the
// start. The completion time ends when the last byte arrives at the receiver.
#pragma once

#include "ns3/core-module.h"
#include "ns3/internet-module.h"

#include "input.hpp"
#include "routes.hpp"

struct Flow {
	explicit Flow(const FlowLine &line) : line(line)
	{
	}

	FlowLine line;
	std::int64_t fct_ps = -1;
	std::uint32_t received_bytes = 0;
	std::uint32_t retransmissions = 0;
	std::uint32_t timeouts = 0;
	ns3::Ptr<ns3::Socket> sender;
};

inline void on_retransmission(Flow *flow, ns3::Ptr<const ns3::Packet>, const ns3::TcpHeader &, const ns3::Address &,
			      const ns3::Address &, ns3::Ptr<const ns3::TcpSocketBase>)
{
	flow->retransmissions++;
}

inline void on_state(Flow *flow, ns3::TcpSocketState::TcpCongState_t, ns3::TcpSocketState::TcpCongState_t now)
{
	flow->timeouts += now == ns3::TcpSocketState::CA_LOSS;
}

inline void close_soon(ns3::Ptr<ns3::Socket> socket)
{
	ns3::Simulator::ScheduleNow(&ns3::Socket::Close, socket);
}

inline void start(Flow *flow, ns3::Ptr<ns3::Node> node)
{
	flow->sender = ns3::Socket::CreateSocket(node, ns3::TcpSocketFactory::GetTypeId());
	flow->sender->Bind(ns3::InetSocketAddress(ns3::Ipv4Address::GetAny(), FIRST_SOURCE_PORT + flow->line.id));
	flow->sender->SetCloseCallbacks(ns3::MakeCallback(&close_soon),
					ns3::MakeNullCallback<void, ns3::Ptr<ns3::Socket>>());
	flow->sender->TraceConnectWithoutContext("Retransmission", ns3::MakeBoundCallback(&on_retransmission, flow));
	flow->sender->TraceConnectWithoutContext("CongState", ns3::MakeBoundCallback(&on_state, flow));
	flow->sender->Connect(ns3::InetSocketAddress(address_of_host(flow->line.sink), SINK_PORT));
	flow->sender->Send(ns3::Create<ns3::Packet>(flow->line.bytes));
}
