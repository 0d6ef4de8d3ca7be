// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <tuple>

#include "event/time.hpp"
#include "laws/drop_order.h"
#include "laws/mark.h"
#include "link/link_rate.hpp"
#include "port/level_limiter.hpp"
#include "world/world.hpp"

namespace sluice
{

// Which packet a port without room for an arriving one drops. Arrival: the arriving one. Urgency: as
// laws/drop_order.h.
enum class DropOrder : std::uint8_t { Arrival, Urgency };

struct PortSettings {
	std::uint64_t bps = 0;
	Time delay = 0;
	std::uint64_t burst_bytes = 0;	// 0: a real link; otherwise a token bucket as in HTB
	std::uint64_t buffer_bytes = 0; // over all queues
	sl_vq_settings marking = {};
	sl_mark_by mark_by = SL_MARK_BY_PORT;
	std::uint32_t last_queue = SL_QUEUE_RANKS - 1;
	std::uint64_t last_mark_bytes = 0; // K from that queue on; 0: the same as in the others
	DropOrder drop_order = DropOrder::Arrival;
	bool count_tags = false;
	bool count_queues = false;
	bool grants_rates = false;  // answers the requests of D3 and PDQ
	bool tells_hosts = false;   // a connection learns when its packets leave
	bool stamps = false;	    // writes telemetry into data packets
	bool flow_control = false;  // can be paused, or shares its switch's buffer (shared_buffer.hpp)
	bool acks_first = false;    // with flow_control: data has the queue after that of its tag, and ACKs pass it
	bool traces = false;	    // packets of chosen flows (world/trace.hpp) …
	bool traces_all = false;    // … or of all
	std::uint32_t number = 0;   // the port's, if it traces (Part::kind_of)
	std::uint32_t loss_q32 = 0; // part of the arriving packets that are lost by chance; UINT32_MAX: all
	LevelLimits limits;	    // of a host's own port

	auto all() const
	{
		return std::tie(bps, delay, burst_bytes, buffer_bytes, marking.mark_bytes, marking.mark_max_bytes,
				marking.phantom_rate_bps, marking.phantom_mark_bytes, marking.mark_most_q32, mark_by,
				last_queue, last_mark_bytes, drop_order, count_tags, count_queues, grants_rates,
				tells_hosts, stamps, flow_control, acks_first, traces, traces_all, number, loss_q32);
	}

	// What belongs to the link itself, and to what its host knows of it.
	auto of_link() const
	{
		return std::tie(bps, delay, burst_bytes, tells_hosts, flow_control);
	}

	sl_by_rank by_rank() const
	{
		return {
			.last_mark_bytes = last_mark_bytes,
			.last_queue = last_queue,
			.mark_by = mark_by,
			.urgent_first = drop_order != DropOrder::Arrival,
			.unused = 0,
		};
	}

	bool operator==(const PortSettings &other) const
	{
		return all() == other.all() && limits == other.limits;
	}
};

// What all ports with the same settings share. A packet reads it at every port, and a large
// fabric has thousands of ports. A port itself therefore holds only what differs from port to
// port, so that the caches hold more ports. First come two cache lines with what every packet reads.
struct alignas(64) PortKind {
	PortKind(World &of_world, const PortSettings &of_ports)
	    : world(of_world), rate(of_ports.bps), delay(of_ports.delay),
	      burst(serialisation<unsigned __int128>(of_ports.burst_bytes, of_ports.bps)),
	      buffer_bytes(of_ports.buffer_bytes), by_rank(of_ports.by_rank()), counts_tags(of_ports.count_tags),
	      counts_queues(of_ports.count_queues), grants_rates(of_ports.grants_rates),
	      tells_hosts(of_ports.tells_hosts), stamps(of_ports.stamps), flow_control(of_ports.flow_control),
	      acks_first(of_ports.acks_first), limits_levels(of_ports.limits.epoch), traces(of_ports.traces),
	      loss_q32(of_ports.loss_q32), admits_by_rank(of_ports.drop_order == DropOrder::Urgency),
	      ranks_matter(sl_ranks_matter(&by_rank)), has_phantom(of_ports.marking.phantom_rate_bps),
	      has_ramp(of_ports.marking.mark_max_bytes > of_ports.marking.mark_bytes),
	      is_plain(!burst && !limits_levels && !counts_queues && !grants_rates && !tells_hosts && !stamps &&
		       !flow_control && !traces && !loss_q32 && !admits_by_rank && !ranks_matter && !has_phantom &&
		       !has_ramp),
	      marking(of_ports.marking), settings(of_ports)
	{
		marking.rate_bps = of_ports.bps;
	}

	World &world;
	const LinkRate rate;
	const Time delay;
	const Time burst; // how far an emulated link may send ahead of its rate
	const std::uint64_t buffer_bytes;
	const sl_by_rank by_rank;

	const bool counts_tags, counts_queues, grants_rates, tells_hosts, stamps, flow_control, acks_first,
		limits_levels, traces;
	const std::uint32_t loss_q32;
	const bool admits_by_rank; // drops by laws/drop_order.h
	const bool ranks_matter;   // marks or drops go by what waits at each rank
	const bool has_phantom;	   // marks go by a phantom queue
	const bool has_ramp;	   // marks are drawn
	const bool is_plain;	   // nothing of the above but counters by tag, and a real link
	sl_vq_settings marking;
	const PortSettings settings;
};

} // namespace sluice
