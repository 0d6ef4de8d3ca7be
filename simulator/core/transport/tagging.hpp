// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "event/time.hpp"
#include "laws/control.h"
#include "transport/flow_spec.hpp"
#include "transport/settings.hpp"

namespace sluice
{

// The tag of a packet before which its flow had sent `attained_bytes`, as dataplane/bpf/tag.bpf.c
// writes it.
std::uint8_t data_tag(const TransportSettings &settings, const FlowSpec &flow, sl_phase phase,
		      std::uint64_t attained_bytes, Time now);

// The tag of a packet without data.
std::uint8_t header_tag(const TransportSettings &settings);

} // namespace sluice
