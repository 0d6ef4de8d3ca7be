// SPDX-License-Identifier: Apache-2.0
#include "transport/policies.hpp"

#include <dlfcn.h>

#include <stdexcept>
#include <utility>

#include "transport/control/cubic.hpp"
#include "transport/control/datcp.hpp"
#include "transport/control/from_file.hpp"
#include "transport/control/window_law.hpp"
#include "transport/messages/homa.hpp"
#include "transport/pacing/ack_clocking.hpp"
#include "transport/pacing/granted_rate.hpp"
#include "transport/pacing/paced.hpp"
#include "transport/pacing/pdq_rate.hpp"
#include "transport/pacing/small_queues.hpp"

namespace sluice
{

namespace
{

constexpr std::uint32_t PFABRIC_STARVED_AFTER = 5; // timeouts (SIGCOMM 2013, section 4.2)

} // namespace

TransportSettings completed(const TransportSettings &settings)
{
	TransportSettings made = settings;

	made.timeout.restarts_for_first = settings.recovery.uses_rack();
	if (settings.control == Control::pfabric) {
		made.timeout.rule = TimeoutRule::Fixed;
		made.timeout.starved_after = PFABRIC_STARVED_AFTER;
	} else {
		if (made.timeout.rule != TimeoutRule::Fixed)
			made.timeout.rule = settings.recovery.as_linux ? TimeoutRule::Linux : TimeoutRule::Rfc6298;
	}
	if (settings.control == Control::homa)
		made.messages = std::make_shared<Homa>(settings.homa, settings.timeout.least);
	else if (settings.make_messages)
		made.messages = settings.make_messages();
	return made;
}

void load_transport(TransportSettings &settings, const std::string &library, std::vector<std::uint32_t> parameters)
{
	Dl_info core = {};

	// The core is loaded already, but so far only Python finds its functions.
	dladdr(reinterpret_cast<void *>(&load_transport), &core);
	dlopen(core.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
	std::shared_ptr<void> loaded = load_library(library);
	auto *make =
		reinterpret_cast<MessageTransport *(*)(const std::uint32_t *)>(dlsym(loaded.get(), "sl_transport"));

	if (!make)
		throw std::invalid_argument(library + " has no function sl_transport");
	settings.control = Control::reno; // of a connection that never sends by it
	settings.make_messages = [loaded, make, values = std::move(parameters)] {
		return std::shared_ptr<MessageTransport>(make(values.data()), [loaded](auto *made) { delete made; });
	};
}

std::unique_ptr<CongestionControl> make_congestion_control(const TransportSettings &settings, const FlowSpec &flow,
							   std::uint64_t link_bps)
{
	switch (settings.control) {
#define SLUICE_CASE(name)                                                                                            \
	case Control::name:                                                                                          \
		return std::make_unique<WindowLaw<sl_control_##name>>();
		SL_WINDOW_LAWS(SLUICE_CASE)
#undef SLUICE_CASE
	case Control::datcp:
		return std::make_unique<Datcp>(flow);
	case Control::cubic:
		return std::make_unique<Cubic>();
	case Control::reno:
	case Control::pfabric:
	case Control::d3:
	case Control::homa:
	case Control::pdq:
		return std::make_unique<Reno>();
	case Control::file:
		return std::make_unique<FromFile>(*settings.file, settings.window.largest, link_bps);
	}
	throw std::invalid_argument("TransportSettings.control: no such congestion control");
}

std::unique_ptr<Pacing> make_pacing(TimerEvents &timers, const TransportSettings &settings, Flow &flow,
				    std::uint64_t link_bps)
{
	if (settings.control == Control::d3)
		return std::make_unique<D3Rate>(timers, settings, flow);
	if (settings.control == Control::pdq)
		return std::make_unique<PdqRate>(timers, settings, flow, link_bps);
	if (settings.control == Control::file && settings.file->owns_window())
		return std::make_unique<Paced>(timers, flow);
	if (settings.small_queues)
		return std::make_unique<SmallQueues>(timers, settings, flow);
	return std::make_unique<AckClocking>();
}

} // namespace sluice
