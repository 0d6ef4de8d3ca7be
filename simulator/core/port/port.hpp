// SPDX-License-Identifier: Apache-2.0
// A port and the link behind it: tag to queue, marks, buffer bound, queue discipline, serialisation, propagation.
//
// An emulated link is a bucket of tokens that fills at its rate: a packet takes no time on it, but the bucket has to have some. What
// has been sent on credit counts as backlog until the rate has caught up, as in the virtual queue of a testbed's port.
//
// Nothing happens when a port has sent a packet: it catches up with its departures when somebody looks at it, which is when a packet
// comes, and when the link runs empty. Who leaves next depends only on what had come by then, so it comes out the same.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <tuple>

#include "laws/mark.h"
#include "laws/tags.gen.h"
#include "port/rate_allocator.hpp"
#include "link/link.hpp"
#include "port/queue_maps.hpp"
#include "port/queueing.hpp"
#include "world/world.hpp"

namespace sluice
{

// Whose backlog marks a packet: all that waits in the port; its own queue's; that of the queues served no later than its own.
enum class MarkBy : std::uint8_t { Port, Queue, Ahead };

struct PortSettings {
	std::uint64_t bps = 0;
	Time delay = 0;
	std::uint64_t burst_bytes = 0;	// 0: a real link; else a token bucket, as HTB emulates one
	std::uint64_t buffer_bytes = 0; // over all queues
	sl_vq_settings marking = {};
	MarkBy mark_by = MarkBy::Port;
	bool count_tags = false;
	bool grants_rates = false; // D3

	auto all() const
	{
		return std::tie(bps, delay, burst_bytes, buffer_bytes, marking.mark_bytes, marking.mark_max_bytes,
				marking.phantom_rate_bps, marking.phantom_mark_bytes, mark_by, count_tags,
				grants_rates);
	}

	bool operator==(const PortSettings &other) const
	{
		return all() == other.all();
	}
};

// What ports with the same settings have in common. A packet looks at it in every port, and a large fabric has thousands of
// ports: only what differs from port to port shall take up room in caches for each.
struct PortKind {
	PortKind(World &world, const PortSettings &settings)
	    : world(world), settings(settings), line(settings.bps),
	      burst(serialisation(settings.burst_bytes, settings.bps))
	{
		this->settings.marking.rate_bps = settings.bps;
	}

	World &world;
	PortSettings settings;
	Line line;
	Time burst; // what an emulated link sends ahead of its rate
};

// Of one tag, cumulative; what the controller reads from a switch by OpenFlow. Aligned so as to lie in one cache line.
struct alignas(32) TagCount {
	std::uint64_t packets = 0;
	std::uint64_t bytes = 0;
	std::uint64_t completed = 0; // packets with a FIN
};

using TagCounters = std::array<TagCount, SL_TAG_COUNT>;

struct PortStatistics {
	std::uint64_t packets = 0; // sent
	std::uint64_t bytes = 0;
	std::uint64_t most_bytes = 0; // that ever waited
	std::uint64_t marked = 0;
	std::uint64_t dropped = 0;
};

// As an event: the arrival of the first packet on the link; in the calendar while there is one. Of an emulated link that is empty while
// packets wait: tokens.
class alignas(64) Port : public Event
{
      public:
	Port(const PortKind &kind, std::uint16_t peer, bool peer_is_host, std::unique_ptr<Queueing> queueing,
	     SharedQueueMap queue_of);

	// A packet is to leave by this port: it waits, or goes, or is dropped.
	void accept(Packet *packet);

	// Whatever was to leave by now has left.
	void catch_up();

	// The first packet on the link has come to its end. Of an emulated link: nullptr, if its bucket has filled instead.
	Packet *on_arrival();

	std::uint16_t peer() const
	{
		return peer_;
	}

	bool leads_to_host() const
	{
		return peer_is_host_;
	}

	void set_queue_of(SharedQueueMap queue_of)
	{
		queue_of_ = std::move(queue_of);
	}

	std::uint64_t backlog_bytes() const
	{
		return backlog_bytes_;
	}

	const PortStatistics &statistics() const
	{
		return statistics_;
	}

	const TagCounters *counters() const
	{
		return counters_.get();
	}

	std::uint64_t bps() const
	{
		return kind_.settings.bps;
	}

	template <class Visit> void visit_waiting(Visit &&visit) const
	{
		queueing_->visit(visit);
	}

	template <class Visit> void visit_under_way(Visit &&visit) const
	{
		link_.visit(visit);
	}

      private:
	bool make_room(Packet *arriving);
	void mark(Packet *packet);
	bool marks(const Packet &packet);
	std::uint64_t marking_backlog(std::uint8_t queue) const;
	void drop(Packet *packet);
	void count(const Packet &packet);
	void grant_rate(Packet &packet);
	void send_next(Time now);
	void take_off(const Packet &packet);
	Packet *on_emulated_arrival();
	void await(Time when);
	void await_tokens();
	std::uint64_t waiting_bytes() const;

	// By cache line: after the event's, all that an arrival looks at; what a departure does, too; what few ports need.
	std::uint16_t peer_;
	bool peer_is_host_;
	bool awaits_tokens_ = false;
	Link link_;
	Time busy_until_;		  // of an emulated link: how far its tokens reach
	std::uint64_t backlog_bytes_ = 0; // without the packet on the link
	const PortKind &kind_;

	std::unique_ptr<Queueing> queueing_;
	SharedQueueMap queue_of_;
	PortStatistics statistics_;

	std::unique_ptr<TagCounters> counters_;
	std::unique_ptr<RateAllocator> allocator_;
	sl_vq_state virtual_queue_ = {};
	std::array<std::uint64_t, MAX_QUEUES> queue_bytes_ = {}; // kept unless marks go by the whole port
};

} // namespace sluice
