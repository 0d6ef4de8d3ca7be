// SPDX-License-Identifier: Apache-2.0
// The fabric as Python sees it: numbers in, arrays out. Scenario, scheme and policy are Python's
// (simulator/).
#include "fabric/fabric.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "fabric/windows.hpp"
#include "python/bindings.hpp"
#include "python/columns.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sluice
{

namespace
{

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

void add_flows(Fabric &fabric, const Column<std::uint64_t> &id, const Column<std::uint64_t> &bytes,
	       const Column<std::int64_t> &start_ps, const Column<std::int64_t> &began_ps,
	       const Column<std::int64_t> &deadline_ps, const Column<std::int64_t> &until_ps,
	       const Column<std::uint16_t> &source, const Column<std::uint16_t> &sink,
	       const Column<std::uint8_t> &size_known, const Column<std::uint8_t> &on_quench,
	       const Column<std::uint32_t> &importance_milli, const Column<std::uint32_t> &importance_share_milli,
	       const Column<std::uint8_t> &transport)
{
	std::size_t n = id.shape(0);

	for (std::size_t length :
	     {bytes.shape(0), start_ps.shape(0), began_ps.shape(0), deadline_ps.shape(0), until_ps.shape(0),
	      source.shape(0), sink.shape(0), size_known.shape(0), on_quench.shape(0), importance_milli.shape(0),
	      importance_share_milli.shape(0), transport.shape(0)})
		if (length != n)
			throw std::invalid_argument("add_flows: all columns must have the length of id");
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
			.transport = transport(i),
			.importance_milli = importance_milli(i),
			.importance_share_milli = importance_share_milli(i),
		});
}

// Cumulative counters, shape (ports, tags, 3): packets, bytes, completed flows. Zeros for a port
// that does not count.
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

// Cumulative counters, shape (ports, groups, buckets): packets with a FIN by the group of ports through
// which they came.
nb::ndarray<nb::numpy, std::uint64_t> end_counters(Fabric &fabric, std::size_t groups)
{
	std::vector<std::uint64_t> all;

	for (std::uint32_t i = 0; i < fabric.ports(); i++) {
		EndCounters counters = fabric.port(i).end_counters();

		if (counters.size() > groups)
			throw std::invalid_argument(
				"end_counters: groups must be more than each port's ingress group");
		counters.resize(groups);
		for (const auto &group : counters)
			all.insert(all.end(), group.begin(), group.end());
	}
	return array(all, {fabric.ports(), groups, SL_ATTAINED_BUCKETS});
}

// Cumulative counters, shape (ports, queues, 4): packets and bytes sent, packets marked and dropped.
// Zeros for a port that does not count.
nb::ndarray<nb::numpy, std::uint64_t> queue_counters(Fabric &fabric)
{
	std::vector<std::uint64_t> all;

	for (std::uint32_t i = 0; i < fabric.ports(); i++) {
		static const QueueCounters none;
		const QueueCounters *counters = fabric.port(i).queue_counters();

		for (const QueueCount &queue : counters ? *counters : none)
			all.insert(all.end(), {queue.packets, queue.bytes, queue.marked, queue.dropped});
	}
	return array(all, {fabric.ports(), MAX_QUEUES, 4});
}

// For each port: packets and bytes sent, packets marked and dropped, the largest backlog, the
// backlog now.
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

// How often queues of each port were paused.
nb::ndarray<nb::numpy, std::uint64_t> pauses(Fabric &fabric)
{
	std::vector<std::uint64_t> all;

	for (std::uint32_t i = 0; i < fabric.ports(); i++) {
		const FlowControl *control = fabric.port(i).flow_control();

		all.push_back(control ? control->pauses : 0);
	}
	return array(all, {fabric.ports()});
}

// Each active connection: its flow, its window in packets, and the law's last answer.
nb::dict senders(const Fabric &fabric)
{
	std::vector<std::uint64_t> id, acked, rate;
	std::vector<std::uint32_t> cwnd, alpha, urgency, precedence, penalty, phase, rtt;

	for (const Flow *flow : fabric.flows()) {
		if (flow->reported)
			continue;
		const sl_window_record &last = flow->connection.window().last();

		id.push_back(flow->spec.id);
		acked.push_back(flow->connection.acked_bytes());
		rate.push_back(last.rate_bytes_per_s);
		cwnd.push_back(flow->connection.window().packets());
		alpha.push_back(last.alpha_q20);
		urgency.push_back(last.urgency_q16);
		precedence.push_back(last.precedence_q16);
		penalty.push_back(last.penalty_q20);
		phase.push_back(last.phase);
		rtt.push_back(flow->connection.rtt().smoothed_us());
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

// The record of each connection's last window of data: struct sl_window_record (laws/control.h),
// zero until a window has ended.
nb::dict windows(const Fabric &fabric)
{
	std::vector<std::uint64_t> id;
	std::vector<std::uint8_t> records;

	for (const Flow *flow : fabric.flows()) {
		if (flow->reported)
			continue;
		const auto *record = reinterpret_cast<const std::uint8_t *>(&flow->connection.window().last());

		id.push_back(flow->spec.id);
		records.insert(records.end(), record, record + sizeof(sl_window_record));
	}
	nb::dict columns;
	columns["id"] = column(id);
	columns["record"] = array(records, {id.size(), sizeof(sl_window_record)});
	return columns;
}

// The paths of flows: the ports of the first, then those of the second and so on, and where those of each begin.
nb::dict paths(Fabric &fabric, const Column<std::uint64_t> &id, const Column<std::uint16_t> &source,
	       const Column<std::uint16_t> &sink)
{
	std::vector<std::uint32_t> ports;
	std::vector<std::int32_t> begin{0};

	if (source.shape(0) != id.shape(0) || sink.shape(0) != id.shape(0))
		throw std::invalid_argument("paths: all columns must have the length of id");
	for (std::size_t i = 0; i < id.shape(0); i++) {
		const std::vector<std::uint32_t> path = fabric.path(id(i), source(i), sink(i));

		ports.insert(ports.end(), path.begin(), path.end());
		begin.push_back(static_cast<std::int32_t>(ports.size()));
	}
	nb::dict columns;
	columns["begin"] = column(begin);
	columns["port"] = column(ports);
	return columns;
}

// Rows of struct TraceRow (world/trace.hpp).
nb::bytes take_trace(Fabric &fabric)
{
	const std::vector<TraceRow> rows = fabric.take_trace();

	return nb::bytes(rows.data(), rows.size() * sizeof(TraceRow));
}

void set_queue_of(Fabric &fabric, std::uint32_t port, const std::vector<std::uint8_t> &queue_of)
{
	QueueMap map = {};

	if (queue_of.size() != map.size() || *std::max_element(queue_of.begin(), queue_of.end()) >= MAX_QUEUES)
		throw std::invalid_argument(
			"set_queue_of: queue_of must have a queue from 0 to 7 for each of the 62 tags");
	std::copy(queue_of.begin(), queue_of.end(), map.begin());
	fabric.set_queue_of(port, map);
}

void set_ingress_group(Fabric &fabric, std::uint32_t port, std::uint8_t group)
{
	fabric.port(port).set_ingress_group(group);
}

void bind_totals(nb::class_<Fabric> &fabric)
{
	fabric.def_prop_ro("now_ps", [](const Fabric &f) { return f.now(); })
		.def_prop_ro("hops", [](const Fabric &f) { return f.totals().hops; })
		.def_prop_ro("events", [](const Fabric &f) { return f.totals().events; })
		.def_prop_ro("packets_sent", [](const Fabric &f) { return f.totals().sent; })
		.def_prop_ro("packets_dropped", [](const Fabric &f) { return f.totals().dropped; })
		.def_prop_ro("packets_under_way", [](const Fabric &f) { return f.packets_in_use(); })
		.def_prop_ro("flows_under_way", &Fabric::flows_under_way)
		.def_prop_ro("flows_waiting", &Fabric::flows_waiting);
}

} // namespace

void bind_fabric(nb::module_ &m)
{
	const nb::exception<ThreadsLacking> lacking(m, "ThreadsLacking");
	const nb::exception<FlowTooLong> too_long(m, "FlowTooLong", PyExc_ValueError);
	auto fabric = nb::class_<Fabric>(m, "Fabric");

	fabric.def(nb::init<std::uint16_t, std::uint16_t, const TransportSettings &, const std::vector<Time> &,
			    std::uint64_t, bool, unsigned, const std::vector<std::uint16_t> &, std::uint32_t>(),
		   "hosts"_a, "switches"_a, "transport"_a, "near_ps"_a, "seed"_a, "spray_packets"_a, "threads"_a = 1,
		   "stages"_a = std::vector<std::uint16_t>(), "path_salt"_a = 0)
		.def("add_port", &Fabric::add_port, "settings"_a, "discipline"_a, "peer"_a, "peer_is_host"_a,
		     "part"_a = 0, "far_parts"_a = std::vector<std::uint16_t>())
		.def("share_buffer", &Fabric::share_buffer, "bytes"_a, "alpha_q16"_a, "pfc"_a, "margin_bytes"_a,
		     "ports"_a, "into"_a = std::vector<std::uint32_t>(),
		     "headroom_bytes"_a = std::vector<std::uint64_t>())
		.def("add_group", &Fabric::add_group, "ports"_a)
		.def("set_route", &Fabric::set_route, "from_switch"_a, "to_host"_a, "group"_a)
		.def("add_flows", &add_flows, "id"_a, "bytes"_a, "start_ps"_a, "began_ps"_a, "deadline_ps"_a,
		     "until_ps"_a, "source"_a, "sink"_a, "size_known"_a, "on_quench"_a, "importance_milli"_a,
		     "importance_share_milli"_a, "transport"_a)
		.def("run", &Fabric::run, "until_ps"_a, "events"_a, "stops"_a = false,
		     nb::call_guard<nb::gil_scoped_release>())
		.def("audit", &Fabric::audit)
		.def("take_results", [](Fabric &f) { return as_columns(f.take_results()); })
		.def("unfinished", [](const Fabric &f) { return as_columns(f.unfinished()); })
		.def("paths", &paths, "id"_a, "source"_a, "sink"_a)
		.def("set_queue_of", &set_queue_of, "port"_a, "queue_of"_a)
		.def("set_ingress_group", &set_ingress_group, "port"_a, "group"_a)
		.def("tag_counters", &tag_counters)
		.def("end_counters", &end_counters, "groups"_a)
		.def("queue_counters", &queue_counters)
		.def("port_statistics", &port_statistics)
		.def("pauses", &pauses)
		.def("change_port", &Fabric::change_port, "port"_a, "settings"_a, "discipline"_a)
		.def("change_transport", &Fabric::change_transport, "transport"_a)
		.def("add_transport", &Fabric::add_transport, "transport"_a)
		.def("trace", &Fabric::trace, "flows"_a)
		.def("take_trace", &take_trace)
		.def("senders", &senders)
		.def("windows", &windows);
	bind_totals(fabric);
}

} // namespace sluice
