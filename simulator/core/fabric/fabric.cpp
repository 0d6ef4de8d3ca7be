// SPDX-License-Identifier: Apache-2.0
#include "fabric/fabric.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "fabric/windows.hpp"
#include "transport/control/control.hpp"
#include "transport/policies.hpp"
#include "world/random.hpp"

namespace sluice
{

namespace
{

constexpr Time LONGEST_WINDOW = MILLISECOND;

// Generators whose seeds differ by a multiple of SplitMix64's step would draw the same numbers.
std::uint64_t seed_of(std::uint64_t seed, std::size_t part)
{
	return part ? Random(Random(seed).next() ^ part).next() : seed;
}

// A frame has at most 16 bits of bytes, and each counts as a packet.
void check_segment(const TransportSettings &transport)
{
	constexpr std::uint32_t SACK_BLOCKS_BYTES = 24;
	const std::uint64_t payload = transport.segment.payload_bytes, header = transport.segment.header_bytes;

	if (!payload || !header || header + payload > UINT16_MAX ||
	    header + transport.tcp.sack_option_bytes + SACK_BLOCKS_BYTES > UINT16_MAX)
		throw std::invalid_argument(
			"TransportSettings: payload_bytes and header_bytes must be above 0; a frame "
			"of both, or of header_bytes, sack_option_bytes and 24, has at most 65,535");
}

void check_homa(const HomaSettings &homa)
{
	if (!homa.round_trip_packets || homa.levels > MAX_QUEUES || !homa.unscheduled_levels ||
	    homa.unscheduled_levels >= homa.levels || homa.cutoffs_bytes.size() + 1 != homa.unscheduled_levels)
		throw std::invalid_argument(
			"TransportSettings: homa_round_trip_packets and homa_unscheduled_levels must be above 0, "
			"homa_levels at most 8 and above homa_unscheduled_levels, and homa_cutoffs_bytes one number "
			"shorter than those");
}

void check(const TransportSettings &transport)
{
	check_segment(transport);
	if (transport.control == Control::homa)
		check_homa(transport.homa);
}

void check_divided(const TransportSettings &transport)
{
	if (transport.control == Control::datcp || transport.control == Control::d3 ||
	    transport.control == Control::homa || transport.control == Control::pdq || transport.make_messages ||
	    transport.tcp.keeps_threshold || transport.tcp.ends_with_ack)
		throw std::invalid_argument("TransportSettings: in a network of several parts, control must not be "
					    "datcp, d3, homa, pdq or a loaded transport, and keeps_threshold and "
					    "ends_with_ack must be false");
}

} // namespace

Fabric::Fabric(std::uint16_t hosts, std::uint16_t switches, const TransportSettings &transport,
	       const std::vector<Time> &near, std::uint64_t seed, bool spray_packets, unsigned threads,
	       const std::vector<std::uint16_t> &stages, std::uint32_t path_salt)
    : hosts_(hosts), switches_(switches), threads_(threads), is_divided_(near.size() > 1),
      network_{{completed(transport)}, {}, {}, Routing(switches, hosts, spray_packets, path_salt), {}, {}}
{
	if (near.empty() || near.size() > UINT16_MAX || !threads || (!stages.empty() && stages.size() != near.size()))
		throw std::invalid_argument(
			"Fabric: near_ps must have a time for each of 1 to 65,535 parts, stages must be empty or "
			"have a stage for each, and threads must be at least 1");
	check(transport);
	if (is_divided_)
		check_divided(transport);
	for (std::size_t part = 0; part < near.size(); part++)
		parts_.push_back(std::make_unique<Part>(network_, stages.empty() ? 0 : stages[part], near[part],
							seed_of(seed, part), is_divided_ ? &depot_ : nullptr));
}

// A flow's timers may be on the calendars of two parts.
Fabric::~Fabric()
{
	for (const auto &part : parts_)
		part->flows.clear();
}

std::uint32_t Fabric::add_port(const PortSettings &settings, const Discipline &discipline, std::uint16_t peer,
			       bool peer_is_host, std::uint16_t part, const std::vector<std::uint16_t> &far_parts)
{
	auto is_part = [this](std::uint16_t number) { return number < parts_.size(); };

	if (!settings.bps || settings.burst_bytes > (settings.flow_control ? 0 : settings.bps) ||
	    peer >= (peer_is_host ? hosts_ : switches_) || !is_part(part) ||
	    !std::all_of(far_parts.begin(), far_parts.end(), is_part))
		throw std::invalid_argument(
			"add_port: settings.bps must be above 0, burst_bytes at most what the link "
			"carries in 8 s, and 0 with flow_control, peer a host or switch of the fabric, and part and "
			"far_parts below the "
			"number of parts");
	auto number = static_cast<std::uint32_t>(network_.ports.size());

	network_.ports.push_back(std::make_unique<Port>(parts_[part]->kind_of(settings, number), peer, peer_is_host,
							make_queueing(discipline, settings.bps),
							queue_maps_.shared({})));
	number_of_port_.emplace(network_.ports.back().get(), number);
	part_of_port_.push_back(part);
	if (number < hosts_)
		network_.part_of_host.push_back(part);
	if (!far_parts.empty() && far_parts != std::vector{part})
		add_outlet(number, part, far_parts);
	return number;
}

void Fabric::add_outlet(std::uint32_t number, std::uint16_t part, const std::vector<std::uint16_t> &far_parts)
{
	Port &port = *network_.ports[number];
	Part &near = *parts_[part];
	std::vector<Outlet::Exit> exits;

	for (std::uint16_t to : far_parts) {
		if (to == part)
			throw std::invalid_argument("add_port: a link that leads to other parts must not lead back "
						    "to its own");
		crossings_.push_back(std::make_unique<Crossing>(port, number));
		exits.push_back({crossings_.back().get(), &near.mailbox_for(*parts_[to], to), {}});
	}
	port.lead_to_other_part(static_cast<std::uint32_t>(near.outlets.size()));
	near.outlets.emplace_back(port, std::move(exits));
}

void Fabric::share_buffer(std::uint64_t bytes, std::uint32_t alpha_q16, bool pfc, std::uint64_t margin_bytes,
			  const std::vector<std::uint32_t> &ports, const std::vector<std::uint32_t> &into,
			  const std::vector<std::uint64_t> &headroom_bytes)
{
	auto can = [this](std::uint32_t number) {
		return number < network_.ports.size() && network_.ports[number]->flow_control();
	};

	if (is_divided_ || into.size() != (pfc ? headroom_bytes.size() : 0) ||
	    !std::all_of(ports.begin(), ports.end(), can) || !std::all_of(into.begin(), into.end(), can))
		throw std::invalid_argument(
			"share_buffer: ports and into must be numbers of ports with flow_control, in a "
			"network of one part; into is empty without pfc, and headroom_bytes as long as into");
	buffers_.push_back(std::make_unique<SharedBuffer>(bytes, alpha_q16, pfc, margin_bytes));
	SharedBuffer &buffer = *buffers_.back();

	for (std::uint32_t number : ports) {
		FlowControl &control = *network_.ports[number]->flow_control();

		control.buffer = &buffer;
		if (!pfc)
			control.account = buffer.add_accounts(nullptr, 0);
	}
	for (std::size_t i = 0; i < into.size(); i++) {
		Port &far_end = *network_.ports[into[i]];

		far_end.flow_control()->account = buffer.add_accounts(&far_end, headroom_bytes[i]);
	}
}

void Fabric::change_port(std::uint32_t number, const PortSettings &settings, const Discipline &discipline)
{
	Port &changed = port(number);

	if (settings.of_link() != changed.settings().of_link())
		throw std::invalid_argument("change_port: bps, delay_ps, burst_bytes, tells_hosts and flow_control "
					    "must be those of add_port");
	changed.adopt(parts_[part_of_port_[number]]->kind_of(settings, number),
		      make_queueing(discipline, settings.bps));
}

void Fabric::change_transport(const TransportSettings &transport)
{
	check_further(transport);
	network_.transports.push_back(completed(transport));
}

std::uint8_t Fabric::add_transport(const TransportSettings &transport)
{
	check_further(transport);
	if (network_.others.size() == UINT8_MAX)
		throw std::invalid_argument("add_transport: there are 255 already");
	network_.others.push_back(completed(transport));
	return static_cast<std::uint8_t>(network_.others.size());
}

void Fabric::check_further(const TransportSettings &transport) const
{
	if (transport.segment.payload_bytes != network_.transports.front().segment.payload_bytes)
		throw std::invalid_argument("TransportSettings: payload_bytes must stay as it is");
	check(transport);
	if (is_divided_)
		check_divided(transport);
}

void Fabric::add_flow(const FlowSpec &spec)
{
	if (!spec.bytes || spec.source >= hosts_ || spec.sink >= hosts_ || spec.source == spec.sink)
		throw std::invalid_argument(
			"add_flows: bytes must be at least 1, and source and sink two hosts of the fabric");
	if (spec.until && (is_divided_ || spec.until <= spec.start))
		throw std::invalid_argument("add_flows: until_ps must be 0 or later than start_ps, and always 0 in a "
					    "network of several parts");
	if (spec.transport > network_.others.size())
		throw std::invalid_argument("add_flows: transport must be 0 or a number that add_transport returned");
	if (spec.until && network_.transport_of(spec).messages)
		throw std::invalid_argument("add_flows: until_ps must be 0 for a message");
	if (!spec.until && packets_of(spec.bytes, network_.transports.back().segment.payload_bytes) > MOST_PACKETS)
		throw FlowTooLong(spec);
	parts_[network_.part_of_host.at(spec.source)]->add_flow(spec);
}

bool Fabric::run(Time until, std::uint64_t events, bool stops)
{
	if (!is_divided_)
		return parts_.front()->run(until, events, stops);
	if (stops)
		throw std::invalid_argument("run: stops must be false in a network of several parts");
	for (const auto &crossing : crossings_)
		crossing->prepare();
	return Windows(network_, parts_, lookahead(), threads_, turn_).run(until, events);
}

// A packet is at least a header. The clocks of the parts stay within the longest window of each other.
Time Fabric::lookahead() const
{
	std::uint32_t smallest = UINT32_MAX;
	Time lookahead = LONGEST_WINDOW;

	for (const auto *some : {&network_.transports, &network_.others})
		for (const TransportSettings &transport : *some)
			smallest = std::min(smallest, transport.segment.header_bytes);
	for (const auto &part : parts_)
		for (const Outlet &outlet : part->outlets)
			lookahead = std::min(lookahead, outlet.lookahead(smallest));
	if (lookahead <= 0)
		throw std::invalid_argument("run: a link to a part of the same or an earlier stage must take time");
	return lookahead;
}

std::uint16_t Fabric::add_group(const std::vector<std::uint32_t> &numbers)
{
	std::vector<Port *> ports;
	std::uint16_t part = numbers.empty() ? 0 : part_of_port_.at(numbers.front());

	ports.reserve(numbers.size());
	for (std::uint32_t number : numbers) {
		ports.push_back(network_.ports.at(number).get());
		if (part_of_port_[number] != part)
			throw std::invalid_argument("add_group: ports must belong to one part of the network");
	}
	return network_.routing.add_group(ports, part);
}

std::vector<FlowResult> Fabric::take_results()
{
	return std::exchange(network_.results, {});
}

std::vector<FlowResult> Fabric::unfinished() const
{
	std::vector<FlowResult> some;

	for (const Flow *flow : flows())
		if (!flow->reported)
			some.push_back(network_.result_of(*flow, Outcome::Unfinished, now()));
	return some;
}

std::vector<std::uint32_t> Fabric::path(std::uint64_t id, std::uint16_t source, std::uint16_t sink)
{
	std::vector<std::uint32_t> numbers;
	Packet packet;

	if (source >= hosts_ || sink >= hosts_)
		throw std::invalid_argument("paths: source and sink must be hosts of the fabric");
	packet.destination = sink;
	packet.path = Flow::path_hash(id);
	for (const Port *port = network_.ports.at(source).get(); !port->leads_to_host();) {
		port = &network_.routing.next(packet, port->peer());
		numbers.push_back(number_of_port_.at(port));
	}
	return numbers;
}

void Fabric::trace(const std::vector<std::uint64_t> &flows)
{
	for (const auto &part : parts_)
		part->world.trace.flows.insert(flows.begin(), flows.end());
}

std::vector<TraceRow> Fabric::take_trace()
{
	std::vector<TraceRow> rows;

	for (const auto &port : network_.ports)
		port->catch_up();
	for (const auto &part : parts_) {
		auto &some = part->world.trace.rows;

		rows.insert(rows.end(), some.begin(), some.end());
		some.clear();
	}
	return rows;
}

std::vector<const Flow *> Fabric::flows() const
{
	std::vector<const Flow *> all;

	for (const auto &part : parts_)
		for (const auto &flow : part->flows)
			all.push_back(flow.get());
	return all;
}

template <class Count> std::size_t Fabric::sum(Count &&count) const
{
	std::size_t total = 0;

	for (const auto &part : parts_)
		total += count(*part);
	return total;
}

std::size_t Fabric::flows_under_way() const
{
	return sum([](const Part &part) { return part.flows.size(); });
}

std::size_t Fabric::flows_waiting() const
{
	return sum([](const Part &part) { return part.waiting.size(); });
}

std::size_t Fabric::packets_in_use() const
{
	return sum([](const Part &part) { return part.world.packets.in_use(); });
}

Totals Fabric::totals() const
{
	return {
		.sent = sum([](const Part &part) { return part.world.totals.sent; }),
		.received = sum([](const Part &part) { return part.world.totals.received; }),
		.dropped = sum([](const Part &part) { return part.world.totals.dropped; }),
		.hops = sum([](const Part &part) { return part.world.totals.hops; }),
		.events = sum([](const Part &part) { return part.world.totals.events; }),
	};
}

void Fabric::audit() const
{
	std::uint64_t found = 0, shared_bytes = 0;
	auto find = [&](const Packet &) { found++; };

	for (const auto &port : network_.ports) {
		std::uint64_t bytes = 0;

		port->visit_waiting([&](const Packet &packet) {
			found++;
			bytes += packet.frame_bytes;
		});
		port->visit_limited(find);
		port->visit_under_way(find);
		if (port->flow_control() && port->flow_control()->buffer)
			shared_bytes += bytes;
		if (bytes != port->backlog_bytes())
			throw std::logic_error("audit: the backlog of a port differs from the bytes that wait there");
	}
	for (const auto &buffer : buffers_)
		shared_bytes -= buffer->held_bytes();
	if (shared_bytes)
		throw std::logic_error("audit: shared buffers hold other bytes than wait at their ports");
	for (const auto &crossing : crossings_)
		crossing->visit(find);
	for (const auto &part : parts_)
		for (const auto &mailbox : part->mailboxes)
			mailbox->visit(find);
	const Totals t = totals();
	if (found != packets_in_use() || t.sent != t.received + t.dropped + found)
		throw std::logic_error("audit: packets: " + std::to_string(t.sent) + " sent, " +
				       std::to_string(t.received) + " received, " + std::to_string(t.dropped) +
				       " dropped, " + std::to_string(found) + " under way, " +
				       std::to_string(packets_in_use()) + " in use");
}

} // namespace sluice
