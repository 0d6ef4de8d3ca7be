// SPDX-License-Identifier: Apache-2.0
// The fabric as Python sees it: numbers in, arrays out. Scenarios, schemes and policy are Python's (simulator/).
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <stdexcept>

#include "fabric/fabric.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sluice
{
namespace
{

template <class T> using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A numpy array that owns a copy.
template <class T>
nb::ndarray<nb::numpy, T> array(const std::vector<T> &values, std::initializer_list<std::size_t> shape)
{
	T *data = new T[values.size() + 1];
	nb::capsule owner(data, [](void *p) noexcept { delete[] static_cast<T *>(p); });

	std::copy(values.begin(), values.end(), data);
	return nb::ndarray<nb::numpy, T>(data, shape, owner);
}

template <class T> nb::ndarray<nb::numpy, T> column(const std::vector<T> &values)
{
	return array(values, {values.size()});
}

nb::dict as_columns(const std::vector<FlowResult> &results)
{
	std::vector<std::uint64_t> id, delivered;
	std::vector<std::int64_t> fct;
	std::vector<std::uint32_t> retransmissions, timeouts;
	std::vector<std::uint8_t> outcome;

	for (const FlowResult &r : results) {
		id.push_back(r.id);
		fct.push_back(r.fct);
		delivered.push_back(r.delivered_bytes);
		retransmissions.push_back(r.retransmissions);
		timeouts.push_back(r.timeouts);
		outcome.push_back(static_cast<std::uint8_t>(r.outcome));
	}
	nb::dict columns;
	columns["id"] = column(id);
	columns["fct_ps"] = column(fct);
	columns["delivered_bytes"] = column(delivered);
	columns["retransmissions"] = column(retransmissions);
	columns["timeouts"] = column(timeouts);
	columns["outcome"] = column(outcome);
	return columns;
}

void add_flows(Fabric &fabric, Column<std::uint64_t> id, Column<std::uint64_t> bytes, Column<std::int64_t> start_ps,
	       Column<std::int64_t> began_ps, Column<std::int64_t> deadline_ps, Column<std::int64_t> until_ps,
	       Column<std::uint16_t> source, Column<std::uint16_t> sink, Column<std::uint8_t> size_known,
	       Column<std::uint8_t> on_quench, Column<std::uint32_t> importance_milli,
	       Column<std::uint32_t> importance_share_milli)
{
	std::size_t n = id.shape(0);

	for (std::size_t length : {bytes.shape(0), start_ps.shape(0), began_ps.shape(0), deadline_ps.shape(0),
				   until_ps.shape(0), source.shape(0), sink.shape(0), size_known.shape(0),
				   on_quench.shape(0), importance_milli.shape(0), importance_share_milli.shape(0)})
		if (length != n)
			throw std::invalid_argument("columns of flows have one length");
	for (std::size_t i = 0; i < n; i++)
		fabric.add_flow({
			.id = id(i),
			.bytes = bytes(i),
			.start = start_ps(i),
			.began = began_ps(i),
			.deadline = deadline_ps(i),
			.until = until_ps(i),
			.source = source(i),
			.sink = sink(i),
			.size_known = size_known(i) != 0,
			.on_quench = on_quench(i),
			.importance_milli = importance_milli(i),
			.importance_share_milli = importance_share_milli(i),
		});
}

// Cumulative counters, shape (ports, tags, 3): packets, bytes, completed flows; of ports that do not count, zeros.
nb::ndarray<nb::numpy, std::uint64_t> tag_counters(Fabric &fabric)
{
	std::vector<std::uint64_t> all;

	for (std::uint32_t i = 0; i < fabric.ports(); i++) {
		static const TagCounters none;
		const TagCounters *counters = fabric.port(i).counters();

		for (const TagCount &tag : counters ? *counters : none)
			all.insert(all.end(), {tag.packets, tag.bytes, tag.completed});
	}
	return array(all, {fabric.ports(), SL_TAG_COUNT, 3});
}

// Per port: packets and bytes sent, marked, dropped, most bytes that waited, bytes that wait now.
nb::ndarray<nb::numpy, std::uint64_t> port_statistics(Fabric &fabric)
{
	std::vector<std::uint64_t> all;

	for (std::uint32_t i = 0; i < fabric.ports(); i++) {
		const PortStatistics &s = fabric.port(i).statistics();

		all.insert(all.end(),
			   {s.packets, s.bytes, s.marked, s.dropped, s.most_bytes, fabric.port(i).backlog_bytes()});
	}
	return array(all, {fabric.ports(), 6});
}

// Senders under way: flow, packets of the window, what the law said last.
nb::dict senders(const Fabric &fabric)
{
	std::vector<std::uint64_t> id, acked, rate;
	std::vector<std::uint32_t> cwnd, alpha, urgency, precedence, penalty, phase, rtt;

	for (const auto &flow : fabric.flows()) {
		if (flow->reported)
			continue;
		const sl_window_record &last = flow->sender.window().last();

		id.push_back(flow->spec.id);
		acked.push_back(flow->sender.acked_bytes());
		rate.push_back(last.rate_bytes_per_s);
		cwnd.push_back(flow->sender.window().packets());
		alpha.push_back(last.alpha_q20);
		urgency.push_back(last.urgency_q16);
		precedence.push_back(last.precedence_q16);
		penalty.push_back(last.penalty_q20);
		phase.push_back(last.phase);
		rtt.push_back(flow->sender.round_trip().smoothed_us());
	}
	nb::dict columns;
	columns["id"] = column(id);
	columns["acked_bytes"] = column(acked);
	columns["rate_bytes_per_s"] = column(rate);
	columns["cwnd"] = column(cwnd);
	columns["alpha_q20"] = column(alpha);
	columns["urgency_q16"] = column(urgency);
	columns["precedence_q16"] = column(precedence);
	columns["penalty_q20"] = column(penalty);
	columns["phase"] = column(phase);
	columns["rtt_us"] = column(rtt);
	return columns;
}

// The last window of data of each sender under way: a struct sl_window_record (laws/control.h), all zero before the first ended.
nb::dict windows(const Fabric &fabric)
{
	std::vector<std::uint64_t> id;
	std::vector<std::uint8_t> records;

	for (const auto &flow : fabric.flows()) {
		if (flow->reported)
			continue;
		const auto *record = reinterpret_cast<const std::uint8_t *>(&flow->sender.window().last());

		id.push_back(flow->spec.id);
		records.insert(records.end(), record, record + sizeof(sl_window_record));
	}
	nb::dict columns;
	columns["id"] = column(id);
	columns["record"] = array(records, {id.size(), sizeof(sl_window_record)});
	return columns;
}

void set_queue_of(Fabric &fabric, std::uint32_t port, const std::vector<std::uint8_t> &queue_of)
{
	QueueMap map = {};

	if (queue_of.size() != map.size() || *std::max_element(queue_of.begin(), queue_of.end()) >= MAX_QUEUES)
		throw std::invalid_argument("a queue map has a queue from 0 to 7 for each of the 62 tags");
	std::copy(queue_of.begin(), queue_of.end(), map.begin());
	fabric.set_queue_of(port, map);
}

void bind_settings(nb::module_ &m)
{
	nb::enum_<Control>(m, "Control")
		.value("dctcp", Control::Dctcp)
		.value("ucp", Control::Ucp)
		.value("d2tcp", Control::D2tcp)
		.value("datcp", Control::Datcp)
		.value("mcp", Control::Mcp)
		.value("reno", Control::Reno)
		.value("cubic", Control::Cubic)
		.value("pfabric", Control::Pfabric)
		.value("d3", Control::D3);
	nb::enum_<Echo>(m, "Echo")
		.value("none", Echo::None)
		.value("standard", Echo::Standard)
		.value("exact", Echo::Exact);
	nb::enum_<MarkBy>(m, "MarkBy")
		.value("port", MarkBy::Port)
		.value("queue", MarkBy::Queue)
		.value("ahead", MarkBy::Ahead);
	nb::enum_<Discipline::Between>(m, "Between")
		.value("strict", Discipline::Between::Strict)
		.value("shares", Discipline::Between::Shares)
		.value("shortest_first", Discipline::Between::ShortestFirst);
	nb::class_<TransportSettings>(m, "TransportSettings")
		.def(nb::init<>())
		.def_rw("control", &TransportSettings::control)
		.def_rw("echo", &TransportSettings::echo)
		.def_rw("payload_bytes", &TransportSettings::payload_bytes)
		.def_rw("header_bytes", &TransportSettings::header_bytes)
		.def_rw("initial_window", &TransportSettings::initial_window)
		.def_rw("max_window", &TransportSettings::max_window)
		.def_rw("rto_min_ps", &TransportSettings::rto_min)
		.def_rw("rto_initial_ps", &TransportSettings::rto_initial)
		.def_rw("duplicate_threshold", &TransportSettings::duplicate_threshold)
		.def_rw("recovers_as_linux", &TransportSettings::recovers_as_linux)
		.def_rw("packets_per_ack", &TransportSettings::packets_per_ack)
		.def_rw("ack_delay_ps", &TransportSettings::ack_delay)
		.def_rw("handshake", &TransportSettings::handshake)
		.def_rw("tags", &TransportSettings::tags)
		.def_rw("tags_deadlines", &TransportSettings::tags_deadlines)
		.def_rw("urgent_after_bytes", &TransportSettings::urgent_after_bytes)
		.def_rw("tags_sizes", &TransportSettings::tags_sizes)
		.def_rw("forgets_late", &TransportSettings::forgets_late);
	nb::class_<PortSettings>(m, "PortSettings")
		.def(nb::init<>())
		.def_rw("bps", &PortSettings::bps)
		.def_rw("delay_ps", &PortSettings::delay)
		.def_rw("burst_bytes", &PortSettings::burst_bytes)
		.def_rw("buffer_bytes", &PortSettings::buffer_bytes)
		.def_rw("mark_by", &PortSettings::mark_by)
		.def_rw("count_tags", &PortSettings::count_tags)
		.def_rw("grants_rates", &PortSettings::grants_rates)
		.def_prop_rw(
			"mark_bytes", [](const PortSettings &s) { return s.marking.mark_bytes; },
			[](PortSettings &s, std::uint64_t v) { s.marking.mark_bytes = v; })
		.def_prop_rw(
			"mark_max_bytes", [](const PortSettings &s) { return s.marking.mark_max_bytes; },
			[](PortSettings &s, std::uint64_t v) { s.marking.mark_max_bytes = v; })
		.def_prop_rw(
			"phantom_rate_bps", [](const PortSettings &s) { return s.marking.phantom_rate_bps; },
			[](PortSettings &s, std::uint64_t v) { s.marking.phantom_rate_bps = v; })
		.def_prop_rw(
			"phantom_mark_bytes", [](const PortSettings &s) { return s.marking.phantom_mark_bytes; },
			[](PortSettings &s, std::uint64_t v) { s.marking.phantom_mark_bytes = v; });
	nb::class_<Discipline>(m, "Discipline")
		.def(nb::init<>())
		.def_rw("between", &Discipline::between)
		.def_rw("flow_queues", &Discipline::flow_queues)
		.def_rw("shares", &Discipline::shares)
		.def_rw("burst_bytes", &Discipline::burst_bytes)
		.def_prop_rw(
			"sub_queues", [](const Discipline &d) { return d.sub_queues.queues; },
			[](Discipline &d, std::uint32_t v) { d.sub_queues.queues = v; })
		.def_prop_rw(
			"release_ns", [](const Discipline &d) { return d.sub_queues.release_ns; },
			[](Discipline &d, std::uint64_t v) { d.sub_queues.release_ns = v; });
}

void bind_fabric(nb::module_ &m)
{
	nb::class_<Fabric>(m, "Fabric")
		.def(nb::init<std::uint16_t, std::uint16_t, const TransportSettings &, Time, std::uint64_t, bool>(),
		     "hosts"_a, "switches"_a, "transport"_a, "near_ps"_a, "seed"_a, "spray_packets"_a)
		.def("add_port", &Fabric::add_port, "settings"_a, "discipline"_a, "peer"_a, "peer_is_host"_a)
		.def("add_group", &Fabric::add_group, "ports"_a)
		.def("set_route", &Fabric::set_route, "from_switch"_a, "to_host"_a, "group"_a)
		.def("add_flows", &add_flows, "id"_a, "bytes"_a, "start_ps"_a, "began_ps"_a, "deadline_ps"_a,
		     "until_ps"_a, "source"_a, "sink"_a, "size_known"_a, "on_quench"_a, "importance_milli"_a,
		     "importance_share_milli"_a)
		.def("run", &Fabric::run, "until_ps"_a, "events"_a, nb::call_guard<nb::gil_scoped_release>())
		.def("audit", &Fabric::audit)
		.def("take_results", [](Fabric &f) { return as_columns(f.take_results()); })
		.def("unfinished", [](const Fabric &f) { return as_columns(f.unfinished()); })
		.def("set_queue_of", &set_queue_of, "port"_a, "queue_of"_a)
		.def("tag_counters", &tag_counters)
		.def("port_statistics", &port_statistics)
		.def("senders", &senders)
		.def("windows", &windows)
		.def_prop_ro("now_ps", [](const Fabric &f) { return f.world().now(); })
		.def_prop_ro("hops", [](const Fabric &f) { return f.world().totals.hops; })
		.def_prop_ro("events", [](const Fabric &f) { return f.world().totals.events; })
		.def_prop_ro("packets_sent", [](const Fabric &f) { return f.world().totals.sent; })
		.def_prop_ro("packets_dropped", [](const Fabric &f) { return f.world().totals.dropped; })
		.def_prop_ro("packets_under_way", [](const Fabric &f) { return f.world().packets.in_use(); })
		.def_prop_ro("flows_under_way", &Fabric::flows_under_way)
		.def_prop_ro("flows_waiting", &Fabric::flows_waiting);
}

} // namespace
} // namespace sluice

NB_MODULE(_fabric, m)
{
	nb::set_leak_warnings(false); // of what a traceback still holds when the interpreter ends
	m.doc() = "Packet-level simulation of a fabric. Times are picoseconds.";
	sluice::bind_settings(m);
	sluice::bind_fabric(m);
}
