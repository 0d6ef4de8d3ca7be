// SPDX-License-Identifier: Apache-2.0
// Runs the flows of a file over ns-3's TcpDctcp: driver NETWORK FLOWS RESULTS. It writes a line
// for each flow into RESULTS, and totals as JSON to its output.
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"

#include "flow.hpp"
#include "input.hpp"
#include "network.hpp"
#include "mended.hpp"

namespace
{

using namespace ns3;

class Run
{
      public:
	explicit Run(const Input &input) : input_(input), network_(input)
	{
		for (std::uint32_t host = 0; host < input.hosts; host++)
			listen(network_.node(host));
		for (const FlowLine &line : input.flows) {
			if (line.id >= 65536U - FIRST_SOURCE_PORT)
				throw std::runtime_error("more flows than TCP ports");
			flows_.push_back(std::make_unique<Flow>(line));
			Simulator::Schedule(PicoSeconds(line.start_ps), &start, flows_.back().get(),
					    network_.node(line.source));
		}
		if (input.settings.count("watch_link"))
			Simulator::Schedule(PicoSeconds(input.setting("watch_every_ps")), &Run::watch, this);
	}

	void run()
	{
		std::clock_t began = std::clock();

		Simulator::Stop(PicoSeconds(input_.setting("end_ps")));
		Simulator::Run();
		seconds_ = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
	}

	void write_flows(std::ostream &out) const
	{
		out << "id,fct_ps,received_bytes,retransmissions,timeouts\n";
		for (const auto &f : flows_)
			out << f->line.id << ',' << f->fct_ps << ',' << f->received_bytes << ',' << f->retransmissions
			    << ',' << f->timeouts << '\n';
	}

	void write_totals(std::ostream &out) const
	{
		std::uint64_t sent = 0, marked = 0, dropped = 0;

		for (const auto &queue : network_.queues()) {
			sent += queue->sent();
			marked += queue->marked();
			dropped += queue->dropped();
		}
		out << "{\"packet_hops\": " << sent << ", \"marked\": " << marked << ", \"dropped\": " << dropped
		    << ", \"events\": " << Simulator::GetEventCount() << ", \"seconds\": " << seconds_
		    << ", \"watched\": [";
		for (std::size_t i = 0; i < watched_.size(); i++)
			out << (i ? "," : "") << watched_[i];
		out << "], \"sent\": [";
		for (std::size_t i = 0; i < network_.queues().size(); i++)
			out << (i ? "," : "") << network_.queues()[i]->sent();
		out << "]}\n";
	}

      private:
	void listen(Ptr<Node> node)
	{
		Ptr<Socket> socket = Socket::CreateSocket(node, TcpSocketFactory::GetTypeId());

		socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), SINK_PORT));
		socket->Listen();
		socket->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address &>(),
					  MakeCallback(&Run::on_connection, this));
	}

	void on_connection(Ptr<Socket> socket, const Address &from)
	{
		Flow *flow = flows_.at(InetSocketAddress::ConvertFrom(from).GetPort() - FIRST_SOURCE_PORT).get();

		socket->SetRecvCallback(MakeCallback(&Run::on_data, this).Bind(flow));
	}

	// A connection is closed once its time is known, because ns-3 searches all connections of a host
	// for each packet.
	void on_data(Flow *flow, Ptr<Socket> socket)
	{
		while (Ptr<Packet> packet = socket->Recv())
			flow->received_bytes += packet->GetSize();
		if (flow->fct_ps >= 0 || flow->received_bytes < flow->line.bytes)
			return;
		flow->fct_ps = Simulator::Now().GetPicoSeconds() - flow->line.start_ps;
		close_soon(socket);
		if (++finished_ == flows_.size())
			Simulator::Stop();
	}

	void watch()
	{
		bool first = input_.setting("watch_first");

		watched_.push_back(network_.queue(input_.setting("watch_link"), first).backlog_bytes());
		Simulator::Schedule(PicoSeconds(input_.setting("watch_every_ps")), &Run::watch, this);
	}

	const Input &input_;
	Network network_;
	std::vector<std::unique_ptr<Flow>> flows_; // by id
	std::size_t finished_ = 0;
	std::vector<std::uint64_t> watched_;
	double seconds_ = 0; // of this process on a CPU
};

// TCP with the simulator's settings. Timestamps are off, because ns-3's count milliseconds;
// without them it measures exactly.
void set_defaults(const Input &input)
{
	std::uint32_t largest = 1 << 20;

	for (const FlowLine &flow : input.flows)
		largest = std::max(largest, flow.bytes);
	bool mended = input.setting("mended");
	Config::SetDefault("ns3::TcpL4Protocol::SocketType",
			   TypeIdValue(mended ? HalvingDctcp::GetTypeId() : TcpDctcp::GetTypeId()));
	if (mended)
		Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(ExactReduction::GetTypeId()));
	Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(input.setting("payload_bytes")));
	Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(input.setting("initial_window")));
	Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(input.setting("packets_per_ack")));
	Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(PicoSeconds(input.setting("ack_delay_ps"))));
	Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(largest));
	Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 26));
	Config::SetDefault("ns3::TcpSocket::TcpNoDelay", BooleanValue(true));
	Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(PicoSeconds(input.setting("rto_initial_ps"))));
	Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(PicoSeconds(input.setting("rto_min_ps"))));
	Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(NanoSeconds(1)));
	Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
	Config::SetDefault("ns3::TcpSocketBase::MaxSegLifetime", DoubleValue(0));
}

} // namespace

int main(int argc, char **argv)
try {
	if (argc != 4)
		throw std::runtime_error("usage: driver NETWORK FLOWS RESULTS");
	Time::SetResolution(Time::PS);
	Input input = read_input(argv[1], argv[2]);
	set_defaults(input);
	Run run(input);
	run.run();
	std::ofstream results(argv[3]);
	run.write_flows(results);
	run.write_totals(std::cout);
	return results ? 0 : 1;
} catch (const std::exception &error) {
	std::cerr << error.what() << '\n';
	return 1;
}
