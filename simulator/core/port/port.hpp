// SPDX-License-Identifier: Apache-2.0
// A port and the link behind it: queue by tag, marking, buffer bound, queue discipline,
// serialisation, propagation.
//
// An emulated link is a token bucket that fills at the link's rate. A packet takes no time on it,
// but the bucket must have tokens. Bytes that were sent on credit count as backlog until the rate
// has caught up, as in the virtual queue of a testbed's port.
//
// No event marks the moment when a port has sent a packet. The port catches up with its departures when
// someone reads it: when a packet arrives, and when the link runs empty. The outcome is the same,
// because the next packet to leave depends only on the packets that have arrived by then.
//
// Nearly all ports are plain (PortKind::is_plain): a real link, strict priorities, marks by one threshold. What
// these do with a packet is written out here, without the questions that only other ports need to ask.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "event/calendar.hpp"
#include "event/time.hpp"
#include "laws/drop_order.h"
#include "laws/mark.h"
#include "link/link.hpp"
#include "packet/packet.hpp"
#include "packet/packet_list.hpp"
#include "port/critical_flows.hpp"
#include "port/level_limiter.hpp"
#include "port/port_counters.hpp"
#include "port/port_settings.hpp"
#include "port/queue_maps.hpp"
#include "port/queueing.hpp"
#include "port/rate_allocator.hpp"
#include "port/shared_buffer.hpp"
#include "port/waiting_packets.hpp"
#include "world/world.hpp"

namespace sluice
{

// What a port has granted to flows that ask for rates: to those of D3, and to those of PDQ.
struct RateGrants {
	RateAllocator first_come;
	CriticalFlows most_critical;
};

// As an event, a port is the arrival of the first packet on its link. It is on the calendar while
// the link holds a packet. On an emulated link that is empty while packets wait, it is the moment
// at which the bucket has tokens again.
class alignas(64) Port : public Event
{
      public:
	Port(const PortKind &kind, std::uint16_t peer, bool peer_is_host, std::unique_ptr<Queueing> queueing,
	     SharedQueueMap queue_of);

	// Takes a packet that leaves by this port: the packet waits, departs at once, or is
	// dropped. It came through a port of the group `from`.
	[[gnu::always_inline]] void accept(Packet *packet, std::uint8_t from = 0)
	{
		if (is_plain_)
			accept_plain(packet, from);
		else
			accept_any(packet, from);
	}

	// Sends every packet whose turn has come by now.
	void catch_up()
	{
		catch_up(kind_->world.now());
	}

	// The far end of the link is simulated by itself, so this port is never on the calendar, and its time is
	// free for the number of the outlet. `take_departures` takes the packets off the link.
	void lead_to_other_part(std::uint32_t outlet)
	{
		awaits_tokens_ = is_outlet_ = true;
		at = outlet;
	}

	// What has departed by then, with the time at which each packet arrives.
	PacketList take_departures(Time by)
	{
		catch_up(by);
		return link_.take_all();
	}

	// A connection learns when the packet leaves its host.
	bool tells(const Packet &packet) const
	{
		return kind_->tells_hosts && packet.flow->host_queue &&
		       (packet.kind == PacketKind::Data || packet.kind == PacketKind::MessageData);
	}

	// When the next packet departs that waits here; NEVER if none waits.
	Time next_departure() const
	{
		return backlog_bytes_ ? busy_until_ : NEVER;
	}

	// The same of a host's port, with packets that wait for an epoch.
	Time next_from_host() const
	{
		return backlog_bytes_ || !limiter_ ? next_departure() : limiter_->next();
	}

	// Takes a packet that no limit of its host's levels holds back.
	void admit(Packet *packet, std::uint8_t from = 0);

	void drop(Packet *packet);

	// Whether a packet that comes after that time departs as soon as it comes.
	bool is_idle(Time after) const
	{
		return !backlog_bytes_ && busy_until_ <= after;
	}

	// The shortest time from the beginning of a departure to the arrival.
	Time least_passage(std::uint32_t frame_bytes) const
	{
		return kind_->delay + (kind_->burst ? 0 : kind_->rate.time_of(frame_bytes));
	}

	// Takes the packet that reaches the end of the link now. On an emulated link nullptr, if the
	// event was for tokens instead. `after_arrival` follows.
	Packet *take_arrival()
	{
		return is_plain_ || has_arrival() ? link_.pop() : nullptr;
	}

	// Sends what may leave by now, and awaits the next event.
	[[gnu::always_inline]] void after_arrival()
	{
		if (!is_plain_)
			after_any_arrival();
		else if (link_.empty())
			catch_up_plain(kind_->world.now());
		else
			await(link_.first().arrives_at);
	}

	// The packet that will arrive after it, if it is on the link already.
	const Packet *next_arrival() const
	{
		return link_.empty() ? nullptr : &link_.first();
	}

	// A packet will be accepted soon: fetches from memory what this needs.
	void prefetch() const
	{
		for (unsigned line = 0; line < 2; line++)
			__builtin_prefetch(reinterpret_cast<const char *>(this) + 64 * line, 1);
	}

	std::uint16_t peer() const
	{
		return peer_;
	}

	bool leads_to_host() const
	{
		return peer_is_host_;
	}

	// The group of this link's other end at the switch there.
	std::uint8_t ingress_group() const
	{
		return ingress_group_;
	}

	void set_ingress_group(std::uint8_t group)
	{
		ingress_group_ = group;
	}

	void set_queue_of(SharedQueueMap queue_of)
	{
		queue_map_ = std::move(queue_of);
		queue_of_ = queue_map_->data();
	}

	// The far end of the link sends a frame that pauses a queue here, or ends its pause.
	void begin_pause_frame(std::uint8_t queue, bool pause);

	// Events of flow control.
	void on_pause_frame();
	void on_departure();

	// nullptr: the port has none.
	FlowControl *flow_control() const
	{
		return flow_control_.get();
	}

	// Works by these settings from now on. Packets that wait stay, in the queue that they have, in
	// the order in which the port would have sent them. `kind` has the link of the one before.
	void adopt(const PortKind &kind, std::unique_ptr<Queueing> queueing);

	World &world() const
	{
		return kind_->world;
	}

	const PortSettings &settings() const
	{
		return kind_->settings;
	}

	std::uint64_t backlog_bytes() const
	{
		return backlog_bytes_;
	}

	PortStatistics statistics() const
	{
		return {sent_packets_, sent_bytes_, most_bytes_, marked_, dropped_};
	}

	const TagCounters *counters() const
	{
		return counters_.get();
	}

	const EndCounters &end_counters() const
	{
		return end_counters_;
	}

	const QueueCounters *queue_counters() const
	{
		return queue_counters_.get();
	}

	std::uint64_t bps() const
	{
		return kind_->settings.bps;
	}

	template <class Visit> void visit_waiting(Visit &&visit) const
	{
		waiting_.visit(visit);
	}

	// Packets that wait for an epoch are no part of the backlog.
	template <class Visit> void visit_limited(Visit &&visit) const
	{
		if (limiter_)
			limiter_->visit(visit);
	}

	template <class Visit> void visit_under_way(Visit &&visit) const
	{
		link_.visit(visit);
	}

      private:
	void catch_up(Time now)
	{
		if (is_plain_)
			catch_up_plain(now);
		else
			while (backlog_bytes_ && busy_until_ <= now)
				send_next(busy_until_);
	}

	void accept_plain(Packet *packet, std::uint8_t from);
	void queue_plain(Packet *packet, Time now);
	void catch_up_plain(Time now);
	void depart_plain(Packet *packet, Time start);
	void accept_any(Packet *packet, std::uint8_t from);
	void after_any_arrival();
	bool make_room(Packet *arriving, Time now);
	bool has_room(Packet *arriving, Time now);
	bool has_room_at_rank(Packet *arriving, Time now);
	bool has_room_in_shared(Packet *arriving);
	void mark(Packet *packet);
	bool marks(const Packet &packet, Time now);
	bool marks_at_rank(const Packet &packet, Time now);
	bool marks_backlog(const sl_vq_settings &marking, std::uint64_t found, bool draws) const;
	bool loses() const;
	void make_counters();
	void count(const Packet &packet, std::uint8_t from);
	void count_sent(const Packet &packet);
	void grant_rate(const Packet &packet);
	void schedule(const Packet &packet, SchedulingHeaders &headers);
	void send_next(Time now);
	void leave_account(Packet *packet, Time now);
	void await_departure();
	void tell_host(const Packet &packet) const;
	void stamp(const Packet &packet, Time now) const;
	void trace(TraceEvent event, const Packet &packet, Time at) const;
	void take_off(const Packet &packet);
	bool has_arrival() const;
	void after_emulated_arrival();
	void await_tokens();

	// The first packet enters an empty link.
	void begin_link(Time arrives_at)
	{
		if (!awaits_tokens_)
			await(arrives_at);
		else if (is_outlet_)
			kind_->world.sending.push_back(static_cast<std::uint32_t>(at));
	}

	void await(Time when)
	{
		at = when;
		kind_->world.calendar.add(this);
	}

	// The backlog that marks and buffer go by: all that waits, and what an emulated link has
	// sent on credit.
	std::uint64_t waiting_bytes(Time now) const
	{
		return backlog_bytes_ + credit_bytes(now);
	}

	// What an emulated link has sent ahead of its rate.
	std::uint64_t credit_bytes(Time now) const
	{
		if (!kind_->burst)
			return 0;
		Time early = busy_until_ + kind_->burst - now;

		return early > 0 ? static_cast<std::uint64_t>(early / kind_->rate.time_of(1)) : 0;
	}

	sl_ahead ahead(std::uint64_t credit_bytes) const;

	// By cache line: first what an arrival reads, together with the event; then what a departure
	// reads, up to the most urgent queue; then the other queues, and the rest.
	std::uint16_t peer_;
	bool peer_is_host_;
	bool is_plain_ = false;
	bool awaits_tokens_ = false;
	std::uint8_t ingress_group_ = 0;
	bool is_outlet_ = false;
	Link link_;
	// Emulated link: the time up to which its tokens are used. NEVER: pauses hold all packets that wait.
	Time busy_until_;
	std::uint64_t backlog_bytes_ = 0; // without the packets on the link
	const PortKind *kind_;

	const std::uint8_t *queue_of_; // of `queue_map_`
	std::uint64_t sent_packets_ = 0, sent_bytes_ = 0;
	std::uint64_t most_bytes_ = 0; // the largest backlog so far
	WaitingPackets waiting_;
	std::uint64_t marked_ = 0, dropped_ = 0;

	SharedQueueMap queue_map_;
	std::unique_ptr<TagCounters> counters_;
	std::unique_ptr<QueueCounters> queue_counters_;
	std::unique_ptr<RateGrants> grants_;
	std::unique_ptr<FlowControl> flow_control_;
	std::unique_ptr<LevelLimiter> limiter_;
	sl_vq_state virtual_queue_ = {};
	std::array<std::uint64_t, SL_RANK_BACKGROUND + 1> rank_bytes_ = {}; // only if ranks matter
	EndCounters end_counters_;
};

inline void Port::accept_plain(Packet *packet, std::uint8_t from)
{
	const PortKind &kind = *kind_;
	const Time now = kind.world.now();

	catch_up_plain(now);
	if (kind.counts_tags)
		count(*packet, from);
	if (busy_until_ > now)
		return queue_plain(packet, now);
	if (packet->frame_bytes > kind.buffer_bytes && !make_room(packet, now))
		return;
	most_bytes_ = std::max<std::uint64_t>(most_bytes_, packet->frame_bytes);
	depart_plain(packet, now);
}

// The link is busy, so the packet waits.
inline void Port::queue_plain(Packet *packet, Time now)
{
	const PortKind &kind = *kind_;

	packet->queue = queue_of_[packet->tag];
	if (backlog_bytes_ + packet->frame_bytes > kind.buffer_bytes && !make_room(packet, now))
		return;
	// No law marks at a backlog of K or less.
	if (backlog_bytes_ > kind.marking.mark_bytes && packet->ect &&
	    marks_backlog(kind.marking, backlog_bytes_, false))
		mark(packet);
	backlog_bytes_ += packet->frame_bytes;
	most_bytes_ = std::max(most_bytes_, backlog_bytes_);
	waiting_.push_strict(packet, now);
}

inline void Port::catch_up_plain(Time now)
{
	while (backlog_bytes_ && busy_until_ <= now) {
		Packet *packet = waiting_.pop_strict(busy_until_);

		backlog_bytes_ -= packet->frame_bytes;
		depart_plain(packet, busy_until_);
	}
}

// The packet enters the link, which is free from `start` on.
inline void Port::depart_plain(Packet *packet, Time start)
{
	const PortKind &kind = *kind_;

	sent_packets_++;
	sent_bytes_ += packet->frame_bytes;
	busy_until_ = start + kind.rate.time_of(packet->frame_bytes);
	if (link_.empty())
		begin_link(busy_until_ + kind.delay);
	link_.push(packet, busy_until_ + kind.delay);
}

} // namespace sluice
