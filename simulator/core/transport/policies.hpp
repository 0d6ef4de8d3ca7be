// SPDX-License-Identifier: Apache-2.0
// What a connection is composed of, by its congestion control. Nothing else in the core asks
// which control a connection has.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "event/timer.hpp"
#include "transport/control/congestion_control.hpp"
#include "transport/flow_spec.hpp"
#include "transport/pacing/pacing.hpp"
#include "transport/settings.hpp"

namespace sluice
{

class Flow;

// The same settings with what goes with the control and the recovery: the timeout policy, and the transport if it is not
// TCP.
TransportSettings completed(const TransportSettings &settings);

// Settings of a transport of messages from a library, whose function `sl_transport` makes it of the values of its
// parameters. Throws std::invalid_argument if the library is no such transport.
void load_transport(TransportSettings &settings, const std::string &library, std::vector<std::uint32_t> parameters);

std::unique_ptr<CongestionControl> make_congestion_control(const TransportSettings &settings, const FlowSpec &flow,
							   std::uint64_t link_bps);

std::unique_ptr<Pacing> make_pacing(TimerEvents &timers, const TransportSettings &settings, Flow &flow,
				    std::uint64_t link_bps);

} // namespace sluice
