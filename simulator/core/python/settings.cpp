// SPDX-License-Identifier: Apache-2.0
// Settings as Python sees them: one flat object, without the groups that they have here.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "port/discipline.hpp"
#include "port/port_settings.hpp"
#include "python/bindings.hpp"
#include "transport/control/control_file.hpp"
#include "transport/policies.hpp"
#include "transport/settings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sluice
{

namespace
{

// Binds a field of a group of settings as a field of the settings.
template <auto group, auto field, class Settings> void bind_field(nb::class_<Settings> &settings, const char *name)
{
	using Value = std::remove_cvref_t<decltype(std::declval<Settings>().*group.*field)>;

	settings.def_prop_rw(
		name, [](const Settings &s) { return s.*group.*field; },
		[](Settings &s, Value value) { s.*group.*field = value; });
}

void load_control(TransportSettings &settings, const std::string &library, const std::vector<std::uint32_t> &values)
{
	settings.file = std::make_shared<ControlFile>(library, values);
	settings.control = Control::file;
}

void bind_implementation(nb::class_<TransportSettings> &settings)
{
	using T = TransportSettings;
	using I = ImplementationSettings;
	bind_field<&T::tcp, &I::first_alpha_q20>(settings, "first_alpha_q20");
	bind_field<&T::tcp, &I::cuts_at_once>(settings, "cuts_at_once");
	bind_field<&T::tcp, &I::bounds_from_first>(settings, "bounds_from_first");
	bind_field<&T::tcp, &I::changes_by_advance>(settings, "changes_by_advance");
	bind_field<&T::tcp, &I::keeps_threshold>(settings, "keeps_threshold");
	bind_field<&T::tcp, &I::ends_with_ack>(settings, "ends_with_ack");
	bind_field<&T::tcp, &I::keeps_fractions>(settings, "keeps_fractions");
	bind_field<&T::tcp, &I::alpha_by_acks>(settings, "alpha_by_acks");
	bind_field<&T::tcp, &I::timeout_spares_threshold>(settings, "timeout_spares_threshold");
	bind_field<&T::tcp, &I::sack_option_bytes>(settings, "sack_option_bytes");
	bind_field<&T::tcp, &I::opens_if_busy>(settings, "opens_if_busy");
}

void bind_homa(nb::class_<TransportSettings> &settings)
{
	using T = TransportSettings;
	bind_field<&T::homa, &HomaSettings::round_trip_packets>(settings, "homa_round_trip_packets");
	bind_field<&T::homa, &HomaSettings::levels>(settings, "homa_levels");
	bind_field<&T::homa, &HomaSettings::unscheduled_levels>(settings, "homa_unscheduled_levels");
	bind_field<&T::homa, &HomaSettings::cutoffs_bytes>(settings, "homa_cutoffs_bytes");
}

void bind_transport(nb::module_ &m)
{
	using T = TransportSettings;
	nb::enum_<TimeoutRule>(m, "TimeoutRule")
		.value("rfc6298", TimeoutRule::Rfc6298)
		.value("linux", TimeoutRule::Linux)
		.value("fixed", TimeoutRule::Fixed);
	auto settings = nb::class_<T>(m, "TransportSettings")
				.def(nb::init<>())
				.def_rw("control", &T::control)
				.def("load_control", &load_control, "library"_a, "parameters"_a)
				.def("load_transport", &load_transport, "library"_a, "parameters"_a)
				.def_rw("handshake", &T::handshake)
				.def_rw("forgets_late", &T::forgets_late)
				.def_rw("small_queues", &T::small_queues);

	bind_field<&T::segment, &SegmentSettings::payload_bytes>(settings, "payload_bytes");
	bind_field<&T::segment, &SegmentSettings::header_bytes>(settings, "header_bytes");
	bind_field<&T::window, &WindowSettings::initial>(settings, "initial_window");
	bind_field<&T::window, &WindowSettings::largest>(settings, "max_window");
	bind_field<&T::window, &WindowSettings::growth>(settings, "growth");
	bind_field<&T::timeout, &TimeoutSettings::rule>(settings, "timeout_rule");
	bind_field<&T::timeout, &TimeoutSettings::starved_after>(settings, "starved_after");
	bind_field<&T::recovery, &RecoverySettings::duplicate_threshold>(settings, "duplicate_threshold");
	bind_field<&T::recovery, &RecoverySettings::as_linux>(settings, "recovers_as_linux");
	bind_field<&T::recovery, &RecoverySettings::undoes_late>(settings, "undoes_late");
	bind_field<&T::timeout, &TimeoutSettings::least>(settings, "rto_min_ps");
	bind_field<&T::timeout, &TimeoutSettings::initial>(settings, "rto_initial_ps");
	bind_field<&T::timeout, &TimeoutSettings::tick>(settings, "tick_ps");
	bind_field<&T::ack, &AckSettings::echo>(settings, "echo");
	bind_field<&T::ack, &AckSettings::packets_per_ack>(settings, "packets_per_ack");
	bind_field<&T::ack, &AckSettings::delay>(settings, "ack_delay_ps");
	bind_field<&T::tag, &TagSettings::attained>(settings, "tags");
	bind_field<&T::tag, &TagSettings::fixed>(settings, "fixed_tag");
	bind_field<&T::tag, &TagSettings::deadlines>(settings, "tags_deadlines");
	bind_field<&T::tag, &TagSettings::urgent_after_bytes>(settings, "urgent_after_bytes");
	bind_field<&T::tag, &TagSettings::sizes>(settings, "tags_sizes");
	bind_field<&T::tag, &TagSettings::bursts>(settings, "tags_bursts");
	bind_implementation(settings);
	bind_homa(settings);
}

void bind_port(nb::module_ &m)
{
	using P = PortSettings;
	nb::enum_<sl_mark_by>(m, "MarkBy")
		.value("port", SL_MARK_BY_PORT)
		.value("queue", SL_MARK_BY_QUEUE)
		.value("ahead", SL_MARK_BY_AHEAD);
	nb::enum_<DropOrder>(m, "DropOrder")
		.value("arrival", DropOrder::Arrival)
		.value("urgency", DropOrder::Urgency);
	auto settings = nb::class_<P>(m, "PortSettings")
				.def(nb::init<>())
				.def_rw("bps", &P::bps)
				.def_rw("delay_ps", &P::delay)
				.def_rw("burst_bytes", &P::burst_bytes)
				.def_rw("buffer_bytes", &P::buffer_bytes)
				.def_rw("mark_by", &P::mark_by)
				.def_rw("last_queue", &P::last_queue)
				.def_rw("last_mark_bytes", &P::last_mark_bytes)
				.def_rw("drop_order", &P::drop_order)
				.def_rw("count_tags", &P::count_tags)
				.def_rw("count_queues", &P::count_queues)
				.def_rw("grants_rates", &P::grants_rates)
				.def_rw("tells_hosts", &P::tells_hosts)
				.def_rw("stamps", &P::stamps)
				.def_rw("flow_control", &P::flow_control)
				.def_rw("acks_first", &P::acks_first)
				.def_rw("traces", &P::traces)
				.def_rw("traces_all", &P::traces_all)
				.def_rw("loss_q32", &P::loss_q32);

	bind_field<&P::marking, &sl_vq_settings::mark_bytes>(settings, "mark_bytes");
	bind_field<&P::marking, &sl_vq_settings::mark_max_bytes>(settings, "mark_max_bytes");
	bind_field<&P::marking, &sl_vq_settings::mark_most_q32>(settings, "mark_most_q32");
	bind_field<&P::marking, &sl_vq_settings::phantom_rate_bps>(settings, "phantom_rate_bps");
	bind_field<&P::marking, &sl_vq_settings::phantom_mark_bytes>(settings, "phantom_mark_bytes");
	bind_field<&P::limits, &LevelLimits::epoch>(settings, "epoch_ps");
	bind_field<&P::limits, &LevelLimits::bytes>(settings, "level_bytes");
}

void bind_discipline(nb::module_ &m)
{
	using D = Discipline;
	nb::enum_<D::Scheduler>(m, "Scheduler")
		.value("strict", D::Scheduler::Strict)
		.value("shares", D::Scheduler::Shares)
		.value("shortest_first", D::Scheduler::ShortestFirst);
	auto discipline = nb::class_<D>(m, "Discipline")
				  .def(nb::init<>())
				  .def_rw("scheduler", &D::scheduler)
				  .def_rw("flow_queues", &D::flow_queues)
				  .def_rw("shares", &D::shares)
				  .def_rw("burst_bytes", &D::burst_bytes);

	bind_field<&D::sub_queues, &sl_dqs_settings::queues>(discipline, "sub_queues");
	bind_field<&D::sub_queues, &sl_dqs_settings::release_ns>(discipline, "release_ns");
}

} // namespace

void bind_settings(nb::module_ &m)
{
	bind_transport(m);
	bind_port(m);
	bind_discipline(m);
}

} // namespace sluice
