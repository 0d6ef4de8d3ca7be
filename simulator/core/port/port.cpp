// SPDX-License-Identifier: Apache-2.0
#include "port/port.hpp"

#include <algorithm>
#include <utility>

namespace sluice
{

namespace
{

// Of laws/drop_order.h.
std::uint8_t rank_of(const Packet &packet)
{
	return packet.tag == SL_TAG_BACKGROUND ? SL_RANK_BACKGROUND : packet.queue;
}

bool reserves_rates(const Packet &packet)
{
	return packet.kind == PacketKind::RateRequest || packet.kind == PacketKind::RateGrant;
}

} // namespace

Port::Port(const PortKind &kind, std::uint16_t peer, bool peer_is_host, std::unique_ptr<Queueing> queueing,
	   SharedQueueMap queue_of)
    : Event{.kind = EventKind::Arrival}, peer_(peer), peer_is_host_(peer_is_host), busy_until_(-kind.burst),
      kind_(&kind), queueing_(std::move(queueing)), queue_of_(std::move(queue_of))
{
	make_counters();
}

void Port::adopt(const PortKind &kind, std::unique_ptr<Queueing> queueing)
{
	const Time now = kind.world.now();

	catch_up(now);
	while (!queueing_->empty())
		queueing->push(queueing_->pop(now), now);
	queueing_ = std::move(queueing);
	kind_ = &kind;
	make_counters();
}

// Counters and grants that exist already stay as they are.
void Port::make_counters()
{
	const PortSettings &settings = kind_->settings;

	if (settings.count_tags && !counters_)
		counters_ = std::make_unique<TagCounters>();
	if (settings.count_queues && !queue_counters_)
		queue_counters_ = std::make_unique<QueueCounters>();
	if (settings.grants_rates && !allocator_)
		allocator_ = std::make_unique<RateAllocator>();
}

void Port::accept(Packet *packet, std::uint8_t from)
{
	const PortSettings &settings = kind_->settings;
	const Time now = kind_->world.now();

	catch_up(now);
	packet->queue = (*queue_of_)[packet->tag];
	if (settings.count_tags)
		count(*packet, from);
	if (settings.grants_rates && packet->kind == PacketKind::RateRequest)
		grant_rate(*packet);
	if (!has_room(packet, now))
		return;
	if (marks(*packet, now))
		mark(packet);
	backlog_bytes_ += packet->frame_bytes;
	rank_bytes_[rank_of(*packet)] += packet->frame_bytes;
	statistics_.most_bytes = std::max(statistics_.most_bytes, backlog_bytes_);
	queueing_->push(packet, now);
	if (busy_until_ <= now)
		send_next(now);
	else if (kind_->burst && link_.empty())
		await_tokens();
}

void Port::catch_up(Time now)
{
	while (backlog_bytes_ && busy_until_ <= now)
		send_next(busy_until_);
}

void Port::send_next(Time now)
{
	Packet *packet = queueing_->pop(now);

	take_off(*packet);
	statistics_.packets++;
	statistics_.bytes += packet->frame_bytes;
	if (kind_->settings.count_queues)
		count_sent(*packet);
	busy_until_ = std::max(busy_until_, now - kind_->burst) + kind_->rate.time_of(packet->frame_bytes);
	Time arrives_at = (kind_->burst ? now : busy_until_) + kind_->settings.delay;

	if (link_.empty() && !awaits_tokens_)
		await(arrives_at);
	link_.push(packet, arrives_at);
}

// The packet no longer waits.
void Port::take_off(const Packet &packet)
{
	backlog_bytes_ -= packet.frame_bytes;
	rank_bytes_[rank_of(packet)] -= packet.frame_bytes;
}

void Port::await(Time when)
{
	at = when;
	kind_->world.calendar.add(this);
}

// Packets wait for tokens, and no arrival will make the port look.
void Port::await_tokens()
{
	if (!std::exchange(awaits_tokens_, true))
		await(busy_until_);
}

Packet *Port::on_arrival()
{
	if (kind_->burst)
		return on_emulated_arrival();
	Packet *packet = link_.pop();

	if (link_.empty()) {
		catch_up(kind_->world.now());
		return packet;
	}
	await(link_.first().arrives_at);
	return packet;
}

Packet *Port::on_emulated_arrival()
{
	const Time now = kind_->world.now();
	bool has_come = !link_.empty() && link_.first().arrives_at <= now;
	Packet *packet = has_come ? link_.pop() : nullptr;

	awaits_tokens_ = true; // while the port catches up, its departures must set no event
	catch_up(now);
	awaits_tokens_ = false;
	if (!link_.empty())
		await(link_.first().arrives_at);
	else if (backlog_bytes_)
		await_tokens();
	return packet;
}

// False if the arriving packet is dropped.
bool Port::has_room(Packet *arriving, Time now)
{
	const PortSettings &settings = kind_->settings;
	std::uint64_t total = waiting_bytes(now);

	if (settings.drop_order != DropOrder::Urgency || reserves_rates(*arriving))
		return total + arriving->frame_bytes <= settings.buffer_bytes || make_room(arriving, now);
	sl_ahead levels = ahead(credit_bytes(now));
	std::uint8_t rank = rank_of(*arriving);

	if (sl_drop_order_admits(total, sl_ahead_above(&levels, total, rank), arriving->frame_bytes,
				 settings.buffer_bytes, settings.mark_by, rank))
		return true;
	drop(arriving);
	return false;
}

// Drops packets until `arriving` fits. False if `arriving` itself is dropped.
bool Port::make_room(Packet *arriving, Time now)
{
	if (reserves_rates(*arriving))
		return true; // a lost request would leave wrong counters at the ports that granted it
	if (arriving->frame_bytes > kind_->settings.buffer_bytes) { // it can never fit
		drop(arriving);
		return false;
	}
	while (waiting_bytes(now) + arriving->frame_bytes > kind_->settings.buffer_bytes) {
		Packet *victim = kind_->settings.drop_order == DropOrder::PushOut
					 ? queueing_->least_urgent(arriving, now)
					 : queueing_->displaced(arriving);

		if (victim != arriving)
			take_off(*victim);
		drop(victim);
		if (victim == arriving)
			return false;
	}
	return true;
}

void Port::drop(Packet *packet)
{
	statistics_.dropped++;
	if (kind_->settings.count_queues)
		(*queue_counters_)[packet->queue].dropped++;
	kind_->world.totals.dropped++;
	if (!--packet->flow->packets_under_way && packet->flow->reported)
		kind_->world.orphaned_flows.push_back(packet->flow);
	kind_->world.packets.put_back(packet);
}

// Marks go by the real backlog that the packet finds, or by the phantom queue of a port that has
// one.
bool Port::marks(const Packet &packet, Time now)
{
	if (kind_->settings.marking.phantom_rate_bps)
		return sl_vq_arrive(&virtual_queue_, &kind_->settings.marking, packet.frame_bytes,
				    static_cast<sl_u64>(now / NANOSECOND), 0) == SL_VQ_MARK;
	if (!kind_->settings.marking.mark_bytes || !packet.ect)
		return false;
	sl_by_rank by = kind_->settings.by_rank();
	sl_ahead levels = sl_ranks_matter(&by) ? ahead(credit_bytes(now)) : sl_ahead{};
	std::uint64_t found = sl_backlog_that_marks(&levels, &by, waiting_bytes(now), rank_of(packet));
	sl_vq_settings own = kind_->settings.marking;

	own.mark_bytes = sl_mark_bytes_of_rank(own.mark_bytes, &by, rank_of(packet));
	bool ramp = own.mark_max_bytes > own.mark_bytes;

	return sl_vq_marks_backlog(&own, std::min<sl_u64>(found, SL_VQ_MAX_BYTES) * SL_VQ_UNITS_PER_BYTE,
				   ramp ? kind_->world.random.next32() : 0);
}

// The backlog that marks and buffer go by: all that waits, and what an emulated link has sent on
// credit.
std::uint64_t Port::waiting_bytes(Time now) const
{
	return backlog_bytes_ + credit_bytes(now);
}

// What an emulated link has sent ahead of its rate.
std::uint64_t Port::credit_bytes(Time now) const
{
	Time early = kind_->burst ? busy_until_ + kind_->burst - now : 0;

	return early > 0 ? static_cast<std::uint64_t>(early / kind_->rate.time_of(1)) : 0;
}

// What waits at each rank and above it. What was sent on credit counts as the most urgent.
sl_ahead Port::ahead(std::uint64_t credit_bytes) const
{
	sl_ahead levels = {};

	for (unsigned rank = 0; rank < SL_QUEUE_RANKS; rank++)
		levels.of[rank] = credit_bytes += rank_bytes_[rank];
	return levels;
}

void Port::mark(Packet *packet)
{
	if (!packet->ect)
		return;
	packet->ce = true;
	statistics_.marked++;
	if (kind_->settings.count_queues)
		(*queue_counters_)[packet->queue].marked++;
}

void Port::count_sent(const Packet &packet)
{
	QueueCount &count = (*queue_counters_)[packet.queue];

	count.packets++;
	count.bytes += packet.frame_bytes;
}

void Port::grant_rate(const Packet &packet)
{
	allocator_->on_request(*packet.flow->rate_request, static_cast<double>(kind_->settings.bps),
			       8.0 * static_cast<double>(backlog_bytes_));
}

void Port::count(const Packet &packet, std::uint8_t from)
{
	TagCount &count = (*counters_)[packet.tag];

	count.packets++;
	count.bytes += packet.frame_bytes;
	count.completed += packet.last;
	if (packet.last && packet.tag >= SL_TAG_ATTAINED_FIRST && packet.tag <= SL_TAG_ATTAINED_LAST) {
		if (end_counters_.size() <= from)
			end_counters_.resize(from + 1u);
		end_counters_[from][packet.tag - SL_TAG_ATTAINED_FIRST]++;
	}
}

} // namespace sluice
