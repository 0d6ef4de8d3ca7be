// SPDX-License-Identifier: Apache-2.0
#include "port.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "flow.hpp"

namespace sluice
{

Port::Port(World &world, const PortSettings &settings, std::unique_ptr<Queueing> queueing)
    : Event{.what = Happening::Arrival}, peer_(settings.peer), peer_is_host_(settings.peer_is_host),
      mark_by_(settings.mark_by), delay_(settings.delay), world_(world), queueing_(std::move(queueing)),
      buffer_bytes_(settings.buffer_bytes), line_(settings.bps), marking_(settings.marking)
{
	marking_.rate_bps = settings.bps;
	if (settings.count_tags)
		counters_ = std::make_unique<TagCounters>();
	if (settings.grants_rates)
		allocator_ = std::make_unique<RateAllocator>();
}

void Port::accept(Packet *packet)
{
	catch_up();
	packet->queue = queue_of_[packet->tag];
	if (counters_)
		count(*packet);
	if (allocator_ && packet->kind == PacketKind::RateRequest)
		grant_rate(*packet);
	if (backlog_bytes_ + packet->frame_bytes > buffer_bytes_ && !make_room(packet))
		return;
	if (marks(*packet))
		mark(packet);
	backlog_bytes_ += packet->frame_bytes;
	if (mark_by_ != MarkBy::Port)
		queue_bytes_[packet->queue] += packet->frame_bytes;
	statistics_.most_bytes = std::max(statistics_.most_bytes, backlog_bytes_);
	queueing_->push(packet, world_.now());
	if (busy_until_ <= world_.now())
		send_next(world_.now());
}

void Port::catch_up()
{
	while (backlog_bytes_ && busy_until_ <= world_.now())
		send_next(busy_until_);
}

void Port::send_next(Time now)
{
	Packet *packet = queueing_->pop(now);

	take_off(*packet);
	statistics_.packets++;
	statistics_.bytes += packet->frame_bytes;
	busy_until_ = now + line_.time_of(packet->frame_bytes);
	if (link_.empty())
		await_arrival(busy_until_ + delay_);
	link_.push(packet, busy_until_ + delay_);
}

// It no longer waits.
void Port::take_off(const Packet &packet)
{
	backlog_bytes_ -= packet.frame_bytes;
	if (mark_by_ != MarkBy::Port)
		queue_bytes_[packet.queue] -= packet.frame_bytes;
}

void Port::await_arrival(Time arrives_at)
{
	at = arrives_at;
	world_.calendar.add(this);
}

Packet *Port::on_arrival()
{
	Packet *packet = link_.pop();

	if (link_.empty()) {
		catch_up();
		return packet;
	}
	await_arrival(link_.first().arrives_at);
	if (peer_is_host_)
		link_.first().flow->prefetch(link_.first().kind);
	return packet;
}

// Drops until `arriving` fits; false when that is the one that is dropped.
bool Port::make_room(Packet *arriving)
{
	if (arriving->kind == PacketKind::RateRequest || arriving->kind == PacketKind::RateGrant)
		return true; // ports keep room for headers: a lost one would leave their counters wrong for ever
	if (arriving->frame_bytes > buffer_bytes_) { // nobody shall go for nothing
		drop(arriving);
		return false;
	}
	while (backlog_bytes_ + arriving->frame_bytes > buffer_bytes_) {
		Packet *victim = queueing_->displaced(arriving);

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
	world_.totals.dropped++;
	if (!--packet->flow->packets_under_way && packet->flow->reported)
		world_.bereft.push_back(packet->flow);
	world_.packets.put_back(packet);
}

// By the real backlog that the packet finds; by a phantom queue where the port has one (its own model of the backlog).
bool Port::marks(const Packet &packet)
{
	if (marking_.phantom_rate_bps)
		return sl_vq_arrive(&virtual_queue_, &marking_, packet.frame_bytes,
				    static_cast<sl_u64>(world_.now() / NANOSECOND), 0) == SL_VQ_MARK;
	if (!marking_.mark_bytes || !packet.ect)
		return false;
	std::uint64_t found = marking_backlog(packet.queue);
	bool ramp = marking_.mark_max_bytes > marking_.mark_bytes;

	return sl_vq_marks_backlog(&marking_, std::min<sl_u64>(found, SL_VQ_MAX_BYTES) * SL_VQ_UNITS_PER_BYTE,
				   ramp ? world_.random.next32() : 0);
}

std::uint64_t Port::marking_backlog(std::uint8_t queue) const
{
	switch (mark_by_) {
	case MarkBy::Queue:
		return queue_bytes_[queue];
	case MarkBy::Ahead:
		return std::accumulate(queue_bytes_.begin(), queue_bytes_.begin() + queue + 1, std::uint64_t{0});
	default:
		return backlog_bytes_;
	}
}

void Port::mark(Packet *packet)
{
	if (!packet->ect)
		return;
	packet->ce = true;
	statistics_.marked++;
}

void Port::grant_rate(Packet &packet)
{
	const Sender &sender = packet.flow->sender;

	allocator_->on_request(packet.flow->sender.pacer()->request, static_cast<double>(line_.bps()),
			       8.0 * static_cast<double>(backlog_bytes_), sender.round_trip().smoothed());
}

void Port::count(const Packet &packet)
{
	TagCount &count = (*counters_)[packet.tag];

	count.packets++;
	count.bytes += packet.frame_bytes;
	count.completed += packet.last;
}

} // namespace sluice
