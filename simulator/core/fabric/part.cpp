// SPDX-License-Identifier: Apache-2.0
#include "fabric/part.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace sluice
{

namespace
{

std::uint32_t hosts_of(const Flow &flow)
{
	return static_cast<std::uint32_t>(flow.spec.source) << 16 | flow.spec.sink;
}

} // namespace

Part::Part(Network &network, std::uint16_t of_stage, Time near, std::uint64_t seed, PacketDepot *depot)
    : stage(of_stage), world(near, seed, depot), network_(network)
{
	start_.kind = EventKind::FlowStart;
}

const PortKind &Part::kind_of(PortSettings settings, std::uint32_t number)
{
	settings.number = settings.traces ? number : 0;
	for (const auto &kind : kinds_)
		if (kind->settings == settings)
			return *kind;
	kinds_.push_back(std::make_unique<PortKind>(world, settings));
	return *kinds_.back();
}

void Part::add_flow(const FlowSpec &spec)
{
	if (spec.start < world.now() || (!waiting.empty() && spec.start < waiting.back().start))
		throw std::invalid_argument("add_flows: start_ps must not decrease, and must not lie in the past");
	waiting.push_back(spec);
	schedule_start();
}

void Part::schedule_start()
{
	if (start_pending_ || waiting.empty())
		return;
	start_pending_ = true;
	start_.at = waiting.front().start;
	world.calendar.add(&start_);
}

// The port that a packet meets next is often in no near cache. So it is fetched while the port that the
// packet comes from awaits its next arrival. At 144 hosts this saves 4 to 10 % of
// the CPU time; at 16 hosts, whose ports are all near, it costs 3 %.
[[gnu::always_inline]] inline void Part::handle_arrival(Port &port)
{
	Packet *packet = port.take_arrival();

	if (!packet)
		return port.after_arrival();
	world.totals.hops++;
	if (port.leads_to_host()) {
		port.after_arrival();
		if (const Packet *next = port.next_arrival())
			static_cast<const Flow *>(next->flow)->prefetch(next->kind);
		return deliver(packet);
	}
	Port &target = network_.routing.next(*packet, port.peer());

	target.prefetch();
	port.after_arrival();
	target.accept(packet, port.ingress_group());
}

// As handle_arrival. The port that the packet comes from is another part's.
[[gnu::always_inline]] inline void Part::handle_crossing(Crossing &crossing)
{
	Packet *packet = crossing.take_arrival();

	world.totals.hops++;
	if (crossing.leads_to_host()) {
		crossing.after_arrival(world.calendar);
		if (const Packet *next = crossing.next_arrival())
			static_cast<const Flow *>(next->flow)->prefetch(next->kind);
		return deliver(packet);
	}
	Port &target = network_.routing.next(*packet, crossing.peer());

	target.prefetch();
	crossing.after_arrival(world.calendar);
	target.accept(packet, crossing.ingress_group());
}

// In the loops of `run` and `run_window`.
[[gnu::always_inline]] inline void Part::handle(Event *event)
{
	switch (event->kind) {
	case EventKind::Arrival:
		handle_arrival(*static_cast<Port *>(event));
		break;
	case EventKind::Retransmission:
	case EventKind::AckDelay:
	case EventKind::Pace:
	case EventKind::MessageSource:
	case EventKind::MessageSink:
	case EventKind::FlowEnd:
		on_timer(static_cast<TimerEvent *>(event));
		break;
	case EventKind::NetworkEpoch:
		static_cast<LevelLimiter *>(event)->on_event();
		break;
	case EventKind::FlowStart:
		start_flows();
		break;
	case EventKind::Crossing:
		handle_crossing(*static_cast<Crossing *>(event));
		break;
	case EventKind::Departure:
		static_cast<PortEvent *>(event)->port->on_departure();
		break;
	case EventKind::PauseFrame:
		static_cast<PortEvent *>(event)->port->on_pause_frame();
	}
}

bool Part::run(Time until, std::uint64_t events, bool stops)
{
	while (events--) {
		Event *event = world.calendar.take(until);

		if (!event)
			return true;
		world.totals.events++;
		handle(event);
		while (!world.orphaned_flows.empty()) {
			Flow &flow = *static_cast<Flow *>(world.orphaned_flows.back());

			world.orphaned_flows.pop_back();
			remove_if_over(flow);
		}
		if (stops && !network_.results.empty())
			return false;
	}
	return false;
}

Mailbox &Part::mailbox_for(Part &far, std::uint16_t number)
{
	for (const auto &mailbox : mailboxes)
		if (mailbox->far_part() == number)
			return *mailbox;
	mailboxes.push_back(std::make_unique<Mailbox>(number, far.stage > stage));
	far.inbox.push_back(mailboxes.back().get());
	return *mailboxes.back();
}

void Part::fetch(bool turn)
{
	for (Mailbox *mailbox : inbox)
		mailbox->fetch(turn, [this](Crossing &crossing, const PacketList &packets) {
			crossing.append(packets, world.calendar);
		});
	next_ = std::min(next_, world.calendar.next());
}

Time Part::prepare(bool turn)
{
	next_ = NEVER;
	fetch(turn);
	for (const Outlet &outlet : outlets)
		next_ = std::min(next_, outlet.next_departure());
	return next_;
}

// `turn` says in which mailboxes the window before has posted.
Time Part::run_window(Time limit, bool turn)
{
	fetch(turn);
	if (next_ > limit)
		return next_;
	while (Event *event = world.calendar.take(limit)) {
		world.totals.events++;
		handle(event);
	}
	next_ = world.calendar.next();
	Time arrival = post(limit, !turn);

	world.packets.share_surplus();
	return std::min(arrival, next_);
}

// No event marks a departure (port.hpp). An outlet is watched from its first packet on until it is idle.
Time Part::post(Time limit, bool turn)
{
	Time arrival = NEVER;

	for (std::uint32_t number : world.sending)
		if (!std::exchange(outlets[number].is_watched, true))
			watched_.push_back(number);
	world.sending.clear();
	std::erase_if(watched_, [&](std::uint32_t number) {
		Outlet &outlet = outlets[number];

		arrival = std::min(arrival, outlet.post(limit, turn, network_.routing));
		next_ = std::min(next_, outlet.next_departure());
		outlet.is_watched = !outlet.is_idle(limit);
		return !outlet.is_watched;
	});
	return arrival;
}

void Part::on_timer(TimerEvent *event)
{
	if (!event->flow) {
		world.timers.put_back(event);
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
	case EventKind::MessageSource:
		if (flow.message->source_timer.on_event() && !flow.connection.is_over())
			flow.message->on_source_timer();
		break;
	case EventKind::MessageSink:
		if (flow.message->sink_timer.on_event() && !flow.receiver.is_complete())
			flow.message->on_sink_timer();
		break;
	default:
		end_flow(flow);
	}
	if (!world.is_part)
		remove_if_over(flow);
}

void Part::deliver(Packet *packet)
{
	Flow &flow = *static_cast<Flow *>(packet->flow);

	world.totals.received++;
	switch (packet->kind) {
	case PacketKind::Data:
		if (flow.receiver.on_data(packet) && !flow.connection.ends_with_ack())
			complete(flow);
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
	case PacketKind::MessageData:
	case PacketKind::MessageQuery:
	case PacketKind::MessageAnswer:
		deliver_message(packet, flow);
		break;
	}
}

void Part::deliver_message(Packet *packet, Flow &flow)
{
	if (packet->kind == PacketKind::MessageAnswer) {
		flow.message->on_answer(*packet);
	} else if (!flow.receiver.is_complete()) {
		if (packet->kind == PacketKind::MessageQuery)
			flow.message->on_query(*packet);
		else if (flow.receiver.take(*packet))
			flow.message->on_arrival(*packet);
		if (flow.receiver.is_complete()) {
			flow.message->sink_timer.clear();
			flow.connection.stop(); // the source learns by its program's answer
			complete(flow);
		}
	}
	flow.packets_under_way--;
	world.packets.put_back(packet);
	remove_if_over(flow);
}

void Part::deliver_to_source(Packet *packet, Flow &flow)
{
	bool was_killed = flow.connection.was_killed();

	if (packet->kind == PacketKind::Ack)
		flow.connection.on_ack(*packet);
	else if (packet->kind == PacketKind::SynAck)
		flow.connection.on_syn_ack(*packet);
	else
		flow.connection.on_grant(*packet);
	flow.packets_under_way--;
	world.packets.put_back(packet);
	if (world.is_part) {
		if (flow.connection.is_over())
			perhaps_over.push_back(&flow);
		return;
	}
	if (flow.connection.is_over() && flow.receiver.is_complete())
		finish(flow, Outcome::Finished);
	if (flow.connection.was_killed() && !was_killed)
		finish(flow, Outcome::Killed);
	remove_if_over(flow);
}

void Part::start_flows()
{
	start_pending_ = false;
	while (!waiting.empty() && waiting.front().start <= world.now()) {
		FlowSpec spec = waiting.front();

		waiting.pop_front();
		flows.push_back(std::make_unique<Flow>(network_.transport_of(spec), spec,
						       *network_.ports.at(spec.source),
						       *network_.ports.at(spec.sink)));
		Flow &flow = *flows.back();
		flow.place = flows.size() - 1;
		if (flow.message)
			flow.message->start();
		else
			flow.connection.start(opens(flow));
	}
	schedule_start();
}

// A flow takes over the connection of its two hosts that has been idle for longest. Whether it opens one instead: the first one
// has always been there.
bool Part::opens(Flow &flow)
{
	const TransportSettings &transport = network_.transports.back();

	if (!transport.tcp.keeps_threshold)
		return transport.handshake;
	auto [entry, is_first] = idle_.try_emplace(hosts_of(flow));
	auto &idle = entry->second;

	if (idle.empty())
		return transport.handshake || (transport.tcp.opens_if_busy && !is_first);
	flow.connection.resume(idle.front());
	idle.pop_front();
	return transport.handshake;
}

void Part::end_flow(Flow &flow)
{
	if (!flow.end->on_event())
		return;
	flow.connection.stop();
	finish(flow, Outcome::Ended);
}

// The source of the flow may be in another part, which is perhaps ahead. So the result waits for the end
// of the window.
void Part::complete(Flow &flow)
{
	if (world.is_part)
		completions.push_back({&flow, world.now()});
	else
		finish(flow, Outcome::Finished);
}

void Part::finish(Flow &flow, Outcome outcome)
{
	if (!flow.reported)
		network_.results.push_back(network_.result_of(flow, outcome, world.now()));
	flow.reported = true;
}

void Part::remove_if_over(Flow &flow)
{
	if (!flow.is_over())
		return;
	if (network_.transports.back().tcp.keeps_threshold && !flow.message)
		idle_[hosts_of(flow)].push_back(flow.connection.window().kept());
	if (!world.orphaned_flows.empty())
		std::erase(world.orphaned_flows, &flow);
	remove(flow);
}

void Part::remove(Flow &flow)
{
	std::size_t place = flow.place;

	std::swap(flows[place], flows.back());
	flows[place]->place = place;
	flows.pop_back();
}

} // namespace sluice
