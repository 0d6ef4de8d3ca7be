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

constexpr std::uint32_t PAUSE_FRAME_BYTES = 64;

bool reserves_rates(const Packet &packet)
{
	return packet.kind == PacketKind::RateRequest || packet.kind == PacketKind::RateGrant;
}

bool answers_request(const Packet &packet)
{
	return packet.kind == PacketKind::Ack || packet.kind == PacketKind::SynAck ||
	       packet.kind == PacketKind::RateGrant;
}

} // namespace

Port::Port(const PortKind &kind, std::uint16_t peer, bool peer_is_host, std::unique_ptr<Queueing> queueing,
	   SharedQueueMap queue_of)
    : Event{.kind = EventKind::Arrival}, peer_(peer), peer_is_host_(peer_is_host), busy_until_(-kind.burst),
      kind_(&kind), queue_of_(queue_of->data()), waiting_(std::move(queueing)), queue_map_(std::move(queue_of))
{
	is_plain_ = kind.is_plain && waiting_.is_strict();
	make_counters();
}

void Port::adopt(const PortKind &kind, std::unique_ptr<Queueing> queueing)
{
	const Time now = kind.world.now();

	catch_up(now);
	waiting_.change(std::move(queueing), now);
	kind_ = &kind;
	is_plain_ = kind.is_plain && waiting_.is_strict();
	make_counters();
	rank_bytes_ = {};
	if (kind.ranks_matter)
		visit_waiting([this](const Packet &packet) { rank_bytes_[rank_of(packet)] += packet.frame_bytes; });
	if (limiter_)
		limiter_->release();
}

// Counters, grants and limited packets that exist already stay as they are.
void Port::make_counters()
{
	const PortSettings &settings = kind_->settings;

	if (settings.count_tags && !counters_)
		counters_ = std::make_unique<TagCounters>();
	if (settings.count_queues && !queue_counters_)
		queue_counters_ = std::make_unique<QueueCounters>();
	if (settings.grants_rates && !grants_)
		grants_ = std::make_unique<RateGrants>();
	if (settings.flow_control && !flow_control_)
		flow_control_ = std::make_unique<FlowControl>(this);
	if (settings.limits.epoch && !limiter_)
		limiter_ = std::make_unique<LevelLimiter>(*this);
}

void Port::accept_any(Packet *packet, std::uint8_t from)
{
	packet->queue = queue_of_[packet->tag];
	if (kind_->limits_levels)
		limiter_->accept(packet);
	else
		admit(packet, from);
}

void Port::admit(Packet *packet, std::uint8_t from)
{
	const PortKind &kind = *kind_;
	const Time now = kind.world.now();

	catch_up(now);
	packet->queue = queue_of_[packet->tag];
	if (kind.acks_first && packet->kind == PacketKind::Data && packet->queue + 1U < MAX_QUEUES)
		packet->queue++;
	if (kind.loss_q32 && loses())
		return drop(packet);
	if (kind.counts_tags)
		count(*packet, from);
	if (kind.grants_rates)
		grant_rate(*packet);
	if (!has_room(packet, now))
		return;
	if (marks(*packet, now))
		mark(packet);
	backlog_bytes_ += packet->frame_bytes;
	if (kind.ranks_matter)
		rank_bytes_[rank_of(*packet)] += packet->frame_bytes;
	most_bytes_ = std::max(most_bytes_, backlog_bytes_);
	waiting_.push(packet, now);
	if (kind.traces)
		trace(TraceEvent::Queued, *packet, now);
	if (busy_until_ <= now || busy_until_ == NEVER)
		send_next(now);
	else if (kind.flow_control)
		await_departure();
	else if (kind.burst && link_.empty())
		await_tokens();
}

void Port::send_next(Time now)
{
	const PortKind &kind = *kind_;
	Packet *packet = waiting_.pop(now, kind.flow_control ? flow_control_->paused : 0);

	if (!packet) {
		busy_until_ = NEVER;
		return;
	}
	if (kind.flow_control)
		leave_account(packet, now);
	take_off(*packet);
	sent_packets_++;
	sent_bytes_ += packet->frame_bytes;
	if (kind.counts_queues)
		count_sent(*packet);
	tell_host(*packet);
	if (kind.stamps && packet->kind == PacketKind::Data && packet->flow->telemetry)
		stamp(*packet, now);
	busy_until_ = std::max(busy_until_, now - kind.burst) + kind.rate.time_of(packet->frame_bytes);
	Time arrives_at = (kind.burst ? now : busy_until_) + kind.delay;

	if (kind.traces)
		trace(TraceEvent::Sent, *packet, now);
	if (kind.traces && peer_is_host_)
		trace(TraceEvent::Received, *packet, arrives_at);
	if (link_.empty())
		begin_link(arrives_at);
	link_.push(packet, arrives_at);
	if (kind.flow_control)
		await_departure();
}

// The packet leaves the switch, and counts at the far end from now on.
void Port::leave_account(Packet *packet, Time now)
{
	FlowControl &control = *flow_control_;

	if (control.buffer)
		control.buffer->release(packet->account, packet->frame_bytes);
	packet->account = control.account + packet->queue;
	busy_until_ = std::min(busy_until_, now); // no longer NEVER
}

// The other ports of the switch, and the far ends of its links, learn at once what leaves a shared buffer. So an event
// marks each departure there.
void Port::await_departure()
{
	FlowControl &control = *flow_control_;

	if (!control.buffer || !backlog_bytes_ || busy_until_ == NEVER ||
	    std::exchange(control.awaits_departure, true))
		return;
	control.departure.at = busy_until_;
	kind_->world.calendar.add(&control.departure);
}

void Port::on_departure()
{
	flow_control_->awaits_departure = false;
	catch_up(kind_->world.now());
	await_departure();
}

// It does not wait for the packet that the far end is sending.
void Port::begin_pause_frame(std::uint8_t queue, bool pause)
{
	FlowControl &control = *flow_control_;
	Time arrives_at = kind_->world.now() + kind_->rate.time_of(PAUSE_FRAME_BYTES) + kind_->delay;

	control.frames.push_back({arrives_at, queue, pause});
	if (control.frames.size() > 1)
		return;
	control.frame.at = arrives_at;
	kind_->world.calendar.add(&control.frame);
}

// A packet whose turn comes at the same time leaves before.
void Port::on_pause_frame()
{
	FlowControl &control = *flow_control_;
	const FlowControl::Frame frame = control.frames.front();
	const unsigned queue = 1U << frame.queue;

	catch_up(kind_->world.now());
	control.frames.pop_front();
	if (!control.frames.empty()) {
		control.frame.at = control.frames.front().arrives_at;
		kind_->world.calendar.add(&control.frame);
	}
	control.paused = frame.pause ? control.paused | queue : control.paused & ~queue;
	control.pauses += frame.pause;
	if (busy_until_ == NEVER)
		send_next(kind_->world.now());
}

// The packet leaves its host, or is lost there.
void Port::tell_host(const Packet &packet) const
{
	if (tells(packet))
		packet.flow->host_queue->remove(packet.number);
}

void Port::stamp(const Packet &packet, Time now) const
{
	packet.flow->telemetry->add(packet.number, {
							   .at_ns = static_cast<sl_u64>(now / NANOSECOND),
							   .sent_bytes = sent_bytes_,
							   .queue_bytes = backlog_bytes_,
							   .bytes_per_s = kind_->settings.bps / 8,
						   });
}

void Port::trace(TraceEvent event, const Packet &packet, Time at) const
{
	if (!kind_->settings.traces_all && !kind_->world.trace.flows.contains(packet.flow->id))
		return;
	kind_->world.trace.rows.push_back({at, packet.flow->id, backlog_bytes_, kind_->settings.number, packet.number,
					   packet.next_expected, 0, packet.frame_bytes, event, packet.kind,
					   packet.tag, packet.queue, packet.ect, packet.ce});
}

// The packet no longer waits.
void Port::take_off(const Packet &packet)
{
	backlog_bytes_ -= packet.frame_bytes;
	if (kind_->ranks_matter)
		rank_bytes_[rank_of(packet)] -= packet.frame_bytes;
}

// Packets wait for tokens, and no arrival will make the port look.
void Port::await_tokens()
{
	if (!std::exchange(awaits_tokens_, true))
		await(busy_until_);
}

// On an emulated link, the event may be for tokens instead.
bool Port::has_arrival() const
{
	return !kind_->burst || (!link_.empty() && link_.first().arrives_at <= kind_->world.now());
}

void Port::after_any_arrival()
{
	if (kind_->burst)
		return after_emulated_arrival();
	if (link_.empty())
		catch_up(kind_->world.now());
	else
		await(link_.first().arrives_at);
}

void Port::after_emulated_arrival()
{
	awaits_tokens_ = true; // while the port catches up, its departures must set no event
	catch_up(kind_->world.now());
	awaits_tokens_ = false;
	if (!link_.empty())
		await(link_.first().arrives_at);
	else if (backlog_bytes_)
		await_tokens();
}

// False if the arriving packet is dropped.
bool Port::has_room(Packet *arriving, Time now)
{
	if (kind_->flow_control && flow_control_->buffer)
		return has_room_in_shared(arriving);
	if (kind_->admits_by_rank && !reserves_rates(*arriving))
		return has_room_at_rank(arriving, now);
	return waiting_bytes(now) + arriving->frame_bytes <= kind_->buffer_bytes || make_room(arriving, now);
}

bool Port::has_room_in_shared(Packet *arriving)
{
	SharedBuffer &buffer = *flow_control_->buffer;

	if (!buffer.pfc)
		arriving->account = flow_control_->account + arriving->queue;
	if (buffer.admit(arriving->account, arriving->frame_bytes))
		return true;
	drop(arriving);
	return false;
}

bool Port::has_room_at_rank(Packet *arriving, Time now)
{
	std::uint64_t total = waiting_bytes(now);
	sl_ahead levels = ahead(credit_bytes(now));
	std::uint8_t rank = rank_of(*arriving);

	if (sl_drop_order_admits(total, sl_ahead_above(&levels, total, rank), arriving->frame_bytes,
				 kind_->buffer_bytes, kind_->settings.mark_by, rank))
		return true;
	drop(arriving);
	return false;
}

// Drops packets until `arriving` fits. False if `arriving` itself is dropped.
bool Port::make_room(Packet *arriving, Time now)
{
	if (reserves_rates(*arriving))
		return true; // a lost request would leave wrong counters at the ports that granted it
	if (arriving->frame_bytes > kind_->buffer_bytes) { // it can never fit
		drop(arriving);
		return false;
	}
	while (waiting_bytes(now) + arriving->frame_bytes > kind_->buffer_bytes) {
		Packet *victim = waiting_.displaced(arriving);

		if (victim != arriving)
			take_off(*victim);
		drop(victim);
		if (victim == arriving)
			return false;
	}
	return true;
}

// By chance, as a bad cable does, or because the link is cut.
bool Port::loses() const
{
	return kind_->loss_q32 == UINT32_MAX || kind_->world.random.next32() < kind_->loss_q32;
}

void Port::drop(Packet *packet)
{
	dropped_++;
	if (kind_->counts_queues)
		(*queue_counters_)[packet->queue].dropped++;
	if (kind_->traces)
		trace(TraceEvent::Dropped, *packet, kind_->world.now());
	tell_host(*packet);
	kind_->world.lose(packet);
}

// Marks go by the real backlog that the packet finds, or by the phantom queue of a port that has
// one.
bool Port::marks(const Packet &packet, Time now)
{
	const PortKind &kind = *kind_;

	if (kind.has_phantom)
		return sl_vq_arrive(&virtual_queue_, &kind.marking, packet.frame_bytes,
				    static_cast<sl_u64>(now / NANOSECOND), 0) == SL_VQ_MARK;
	if (!kind.marking.mark_bytes || !packet.ect)
		return false;
	if (kind.ranks_matter)
		return marks_at_rank(packet, now);
	return marks_backlog(kind.marking, waiting_bytes(now), kind.has_ramp);
}

bool Port::marks_at_rank(const Packet &packet, Time now)
{
	const sl_by_rank &by = kind_->by_rank;
	sl_ahead levels = ahead(credit_bytes(now));
	std::uint64_t found = sl_backlog_that_marks(&levels, &by, waiting_bytes(now), rank_of(packet));
	sl_vq_settings own = kind_->marking;

	own.mark_bytes = sl_mark_bytes_of_rank(own.mark_bytes, &by, rank_of(packet));
	return marks_backlog(own, found, own.mark_max_bytes > own.mark_bytes);
}

bool Port::marks_backlog(const sl_vq_settings &marking, std::uint64_t found, bool draws) const
{
	return sl_vq_marks_backlog(&marking, std::min<sl_u64>(found, SL_VQ_MAX_BYTES) * SL_VQ_UNITS_PER_BYTE,
				   draws ? kind_->world.random.next32() : 0);
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
	marked_++;
	if (kind_->counts_queues)
		(*queue_counters_)[packet->queue].marked++;
	if (kind_->traces)
		trace(TraceEvent::Marked, *packet, kind_->world.now());
}

void Port::count_sent(const Packet &packet)
{
	QueueCount &count = (*queue_counters_)[packet.queue];

	count.packets++;
	count.bytes += packet.frame_bytes;
}

// D3 asks in packets of their own, PDQ in all packets.
void Port::grant_rate(const Packet &packet)
{
	CarriedFlow &flow = *packet.flow;

	if (flow.scheduling)
		schedule(packet, *flow.scheduling);
	else if (packet.kind == PacketKind::RateRequest)
		grants_->first_come.on_request(*flow.rate_request, static_cast<double>(kind_->settings.bps),
					       8.0 * static_cast<double>(backlog_bytes_));
}

// The answer passes the ports in the opposite order. If the receiver's own port grants rates, too, each learns of it
// a link earlier than it would.
void Port::schedule(const Packet &packet, SchedulingHeaders &headers)
{
	if (headers.leaving)
		return grants_->most_critical.forget(packet.flow->id);
	if (!answers_request(packet))
		return grants_->most_critical.on_request(packet.flow->id, headers.of(packet.sent_at),
							 kind_->world.now(), static_cast<double>(kind_->settings.bps),
							 8.0 * static_cast<double>(backlog_bytes_));
	SchedulingHeader *header = headers.returning(packet.sent_at);

	if (header && header->hops)
		header->path[--header->hops]->on_answer(packet.flow->id, *header);
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
