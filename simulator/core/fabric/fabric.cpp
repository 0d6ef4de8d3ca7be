// SPDX-License-Identifier: Apache-2.0
#include "fabric/fabric.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "transport/policies.hpp"

namespace sluice
{

namespace
{

std::uint32_t hosts_of(const Flow &flow)
{
	return static_cast<std::uint32_t>(flow.spec.source) << 16 | flow.spec.sink;
}

} // namespace

Fabric::Fabric(std::uint16_t hosts, std::uint16_t switches, const TransportSettings &transport, Time near,
	       std::uint64_t seed, bool spray_packets)
    : world_(near, seed), transports_{with_timeout_policy(transport)}, hosts_(hosts), switches_(switches),
      routing_(switches, hosts, spray_packets)
{
	start_.kind = EventKind::FlowStart;
}

std::uint32_t Fabric::add_port(const PortSettings &settings, const Discipline &discipline, std::uint16_t peer,
			       bool peer_is_host)
{
	if (!settings.bps || peer >= (peer_is_host ? hosts_ : switches_))
		throw std::invalid_argument(
			"add_port: settings.bps must be above 0, and peer a host or switch of the fabric");
	ports_.push_back(std::make_unique<Port>(kind_of(settings), peer, peer_is_host,
						make_queueing(discipline, settings.bps), queue_maps_.shared({})));
	return static_cast<std::uint32_t>(ports_.size() - 1);
}

void Fabric::change_port(std::uint32_t number, const PortSettings &settings, const Discipline &discipline)
{
	Port &changed = port(number);

	if (settings.of_link() != changed.settings().of_link())
		throw std::invalid_argument(
			"change_port: bps, delay_ps, burst_bytes and mark_by must be those of add_port");
	changed.adopt(kind_of(settings), make_queueing(discipline, settings.bps));
}

void Fabric::change_transport(const TransportSettings &transport)
{
	if (transport.segment.payload_bytes != transports_.front().segment.payload_bytes)
		throw std::invalid_argument("change_transport: payload_bytes must stay as it is");
	transports_.push_back(with_timeout_policy(transport));
}

const PortKind &Fabric::kind_of(const PortSettings &settings)
{
	for (const auto &kind : kinds_)
		if (kind->settings == settings)
			return *kind;
	kinds_.push_back(std::make_unique<PortKind>(world_, settings));
	return *kinds_.back();
}

std::uint16_t Fabric::add_group(const std::vector<std::uint32_t> &numbers)
{
	std::vector<Port *> ports;

	ports.reserve(numbers.size());
	for (std::uint32_t number : numbers)
		ports.push_back(ports_.at(number).get());
	return routing_.add_group(ports);
}

void Fabric::add_flow(const FlowSpec &spec)
{
	if (spec.start < world_.now() || (!waiting_.empty() && spec.start < waiting_.back().start))
		throw std::invalid_argument("add_flows: start_ps must not decrease, and must not lie in the past");
	if (!spec.bytes || spec.source >= hosts_ || spec.sink >= hosts_ || spec.source == spec.sink)
		throw std::invalid_argument(
			"add_flows: bytes must be at least 1, and source and sink two hosts of the fabric");
	if (spec.until && spec.until <= spec.start)
		throw std::invalid_argument("add_flows: until_ps must be 0 or later than start_ps");
	waiting_.push_back(spec);
	schedule_start();
}

void Fabric::schedule_start()
{
	if (start_pending_ || waiting_.empty())
		return;
	start_pending_ = true;
	start_.at = waiting_.front().start;
	world_.calendar.add(&start_);
}

bool Fabric::run(Time until, std::uint64_t events)
{
	while (events--) {
		Event *event = world_.calendar.take(until);

		if (!event)
			return true;
		world_.totals.events++;
		handle(event);
		while (!world_.orphaned_flows.empty()) {
			Flow &flow = *static_cast<Flow *>(world_.orphaned_flows.back());

			world_.orphaned_flows.pop_back();
			remove_if_over(flow);
		}
	}
	return false;
}

void Fabric::handle(Event *event)
{
	switch (event->kind) {
	case EventKind::Arrival:
		handle_arrival(*static_cast<Port *>(event));
		break;
	case EventKind::Retransmission:
	case EventKind::AckDelay:
	case EventKind::Pace:
	case EventKind::FlowEnd:
		on_timer(static_cast<TimerEvent *>(event));
		break;
	case EventKind::FlowStart:
		start_flows();
		break;
	}
}

// The port that a packet meets next is often in no near cache. So it is fetched while the port that the
// packet comes from awaits its next arrival. At 144 hosts this saves 4 to 10 % of
// the CPU time; at 16 hosts, whose ports are all near, it costs 3 %.
void Fabric::handle_arrival(Port &port)
{
	Packet *packet = port.take_arrival();

	if (!packet)
		return port.after_arrival();
	world_.totals.hops++;
	if (port.leads_to_host()) {
		port.after_arrival();
		if (const Packet *next = port.next_arrival())
			static_cast<const Flow *>(next->flow)->prefetch(next->kind);
		return deliver(packet);
	}
	Port &target = routing_.next(*packet, port.peer());

	target.prefetch();
	port.after_arrival();
	target.accept(packet, port.ingress_group());
}

void Fabric::on_timer(TimerEvent *event)
{
	if (!event->flow) {
		world_.timers.put_back(event);
		return;
	}
	Flow &flow = *event->flow;

	switch (event->kind) {
	case EventKind::Retransmission:
		flow.connection.on_retransmission_timer();
		break;
	case EventKind::AckDelay:
		flow.receiver.on_timer();
		break;
	case EventKind::Pace:
		flow.connection.on_pace_timer();
		break;
	default:
		end_flow(flow);
	}
	remove_if_over(flow);
}

void Fabric::deliver(Packet *packet)
{
	Flow &flow = *static_cast<Flow *>(packet->flow);

	world_.totals.received++;
	switch (packet->kind) {
	case PacketKind::Data:
		if (flow.receiver.on_data(packet) && !flow.connection.ends_with_ack())
			finish(flow, Outcome::Finished);
		break;
	case PacketKind::Syn:
		flow.receiver.on_syn(packet);
		break;
	case PacketKind::RateRequest:
		flow.receiver.on_rate_request(packet);
		break;
	case PacketKind::Ack:
	case PacketKind::SynAck:
	case PacketKind::RateGrant:
		deliver_to_source(packet, flow);
		break;
	}
}

void Fabric::deliver_to_source(Packet *packet, Flow &flow)
{
	bool was_killed = flow.connection.was_killed();

	if (packet->kind == PacketKind::Ack)
		flow.connection.on_ack(*packet);
	else if (packet->kind == PacketKind::SynAck)
		flow.connection.on_syn_ack(*packet);
	else
		flow.connection.on_grant(*packet);
	flow.packets_under_way--;
	world_.packets.put_back(packet);
	if (flow.connection.is_over() && flow.receiver.is_complete())
		finish(flow, Outcome::Finished);
	if (flow.connection.was_killed() && !was_killed)
		finish(flow, Outcome::Killed);
	remove_if_over(flow);
}

void Fabric::start_flows()
{
	start_pending_ = false;
	while (!waiting_.empty() && waiting_.front().start <= world_.now()) {
		FlowSpec spec = waiting_.front();

		waiting_.pop_front();
		flows_.push_back(std::make_unique<Flow>(world_, transports_.back(), spec, *ports_.at(spec.source),
							*ports_.at(spec.sink)));
		Flow &flow = *flows_.back();
		flow.place = flows_.size() - 1;
		flow.connection.start(opens(flow));
	}
	schedule_start();
}

// A flow takes over an idle connection of its two hosts. Whether it opens one instead: the first one has always been there.
bool Fabric::opens(Flow &flow)
{
	const TransportSettings &transport = transports_.back();

	if (!transport.tcp.keeps_threshold)
		return transport.handshake;
	auto [entry, is_first] = idle_.try_emplace(hosts_of(flow));
	auto &idle = entry->second;

	if (idle.empty())
		return transport.handshake || (transport.tcp.opens_if_busy && !is_first);
	flow.connection.resume(idle.back());
	idle.pop_back();
	return transport.handshake;
}

void Fabric::end_flow(Flow &flow)
{
	if (!flow.end->on_event())
		return;
	flow.connection.stop();
	finish(flow, Outcome::Ended);
}

void Fabric::finish(Flow &flow, Outcome outcome)
{
	if (!flow.reported)
		results_.push_back(result_of(flow, outcome));
	flow.reported = true;
}

FlowResult Fabric::result_of(const Flow &flow, Outcome outcome) const
{
	std::uint64_t delivered =
		static_cast<std::uint64_t>(flow.receiver.next_expected()) * transports_.front().segment.payload_bytes;

	return {
		.id = flow.spec.id,
		.fct = world_.now() - flow.spec.start,
		.delivered_bytes = flow.receiver.is_complete() ? flow.spec.bytes : delivered,
		.retransmissions = flow.connection.retransmissions(),
		.timeouts = flow.connection.timeouts(),
		.outcome = outcome,
	};
}

void Fabric::remove_if_over(Flow &flow)
{
	if (!flow.is_over())
		return;
	std::size_t place = flow.place;

	if (transports_.back().tcp.keeps_threshold)
		idle_[hosts_of(flow)].push_back(flow.connection.window().kept());
	if (!world_.orphaned_flows.empty())
		std::erase(world_.orphaned_flows, &flow);
	std::swap(flows_[place], flows_.back());
	flows_[place]->place = place;
	flows_.pop_back();
}

std::vector<FlowResult> Fabric::take_results()
{
	return std::exchange(results_, {});
}

std::vector<FlowResult> Fabric::unfinished() const
{
	std::vector<FlowResult> some;

	for (const auto &flow : flows_)
		if (!flow->reported)
			some.push_back(result_of(*flow, Outcome::Unfinished));
	return some;
}

void Fabric::audit() const
{
	std::uint64_t found = 0;

	for (const auto &port : ports_) {
		std::uint64_t bytes = 0;

		port->visit_waiting([&](const Packet &packet) {
			found++;
			bytes += packet.frame_bytes;
		});
		port->visit_under_way([&](const Packet &) { found++; });
		if (bytes != port->backlog_bytes())
			throw std::logic_error("audit: the backlog of a port differs from the bytes that wait there");
	}
	const Totals &t = world_.totals;
	if (found != world_.packets.in_use() || t.sent != t.received + t.dropped + found)
		throw std::logic_error("audit: packets: " + std::to_string(t.sent) + " sent, " +
				       std::to_string(t.received) + " received, " + std::to_string(t.dropped) +
				       " dropped, " + std::to_string(found) + " under way, " +
				       std::to_string(world_.packets.in_use()) + " in use");
}

} // namespace sluice
