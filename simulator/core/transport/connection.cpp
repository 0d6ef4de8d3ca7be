// SPDX-License-Identifier: Apache-2.0
#include "transport/connection.hpp"

#include <algorithm>
#include <utility>

#include "laws/tag.h"
#include "transport/flow.hpp"

namespace sluice
{

namespace
{

TimeoutRule timeout_rule(const TransportSettings &settings)
{
	if (settings.control == Control::Pfabric)
		return TimeoutRule::Fixed;
	return settings.recovers_as_linux ? TimeoutRule::Linux : TimeoutRule::Rfc6298;
}

} // namespace

Sender::Sender(World &world, const TransportSettings &settings, Flow &flow, Port &port)
    : world_(world), settings_(settings), flow_(flow), port_(port), window_(settings, flow.spec),
      round_trip_(settings.rto_min, settings.rto_initial, timeout_rule(settings)),
      timer_(world.timers, Happening::Retransmission, flow)
{
	const FlowSpec &spec = flow.spec;

	total_ = spec.until ? UINT32_MAX
			    : static_cast<std::uint32_t>((spec.bytes + settings.payload_bytes - 1) /
							 settings.payload_bytes);
	if (settings.control == Control::D3)
		pacer_ = std::make_unique<Pacer>(world, flow);
	if (settings.recovers_as_linux && settings.duplicate_threshold)
		rack_ = std::make_unique<Rack>();
}

std::uint64_t Sender::acked_bytes() const
{
	std::uint64_t bytes = static_cast<std::uint64_t>(una_) * settings_.payload_bytes;

	return una_ == total_ ? flow_.spec.bytes : bytes;
}

void Sender::start()
{
	if (settings_.handshake) {
		send_bare();
		return;
	}
	begin();
}

void Sender::begin()
{
	connected_ = true;
	window_.begin(world_.now());
	if (pacer_)
		ask_for_rate();
	else
		send_allowed();
}

void Sender::on_syn_ack(const Packet &packet)
{
	if (connected_) {
		answer_of_probe();
		return;
	}
	round_trip_.sample(world_.now() - packet.sent_at);
	timer_.clear();
	begin();
}

void Sender::on_ack(const Packet &ack)
{
	if (stopped_ || una_ == total_)
		return;
	timeouts_in_a_row_ = 0;
	std::uint32_t before = in_flight_, cwnd_before = window_.packets();
	std::uint32_t una_before = una_;
	std::uint32_t newly = deliver(ack);

	round_trip_.sample(world_.now() - ack.sent_at);
	window_.watch_slow_start(una_, next_, world_.now(), world_.now() - ack.sent_at, round_trip_);
	window_.on_delivered(newly, ack.ce);
	if (rack_)
		reconsider(ack, una_ != una_before);
	bool reduced = settle_state();
	detect_losses(ack);
	react(ack.ce);
	end_window();
	if (state_ == State::Reducing || state_ == State::Recovery)
		window_.reduce(in_flight_, newly);
	else if (una_ != una_before && !reduced)
		window_.grow(newly, before >= cwnd_before || window_.in_slow_start(), round_trip_, world_.now());
	if (una_ == total_) {
		timer_.clear();
		return;
	}
	// Not for what else arrived beyond a gap: its mending may have been lost (RFC 6298, section 5.3).
	if (una_ != una_before || awaits_overtaken())
		restart_timer();
	send_allowed();
}

void Sender::end_window()
{
	sl_window_sum sum;

	if (!window_.has_ended(una_, next_, world_.now(), round_trip_, &sum))
		return;
	window_.ask_law(sum, acked_bytes(), round_trip_, world_);
	if (was_killed())
		stop();
}

void Sender::stop()
{
	stopped_ = true;
	timer_.clear();
}

void Sender::send_allowed()
{
	if (stopped_ || !connected_)
		return;
	if (pacer_)
		return pace();
	while (in_flight_ < window_.packets() && has_to_send())
		send_one();
}

bool Sender::has_to_send() const
{
	return lost_ || (next_ < total_ && next_ - una_ < settings_.max_window);
}

void Sender::send_one()
{
	if (lost_)
		retransmit_lost();
	else
		send(next_, false);
}

// The next packet goes when the rate allows it; a grant may bring that forward.
void Sender::pace()
{
	if (stopped_ || pacer_->bps <= 0 || !has_to_send())
		return;
	double gap_s = 8.0 * (settings_.payload_bytes + settings_.header_bytes) / pacer_->bps;
	Time gap = static_cast<Time>(std::min(gap_s, 1.0) * SECOND);

	pacer_->timer.set(std::max(world_.now(), pacer_->sent_at + gap));
}

void Sender::on_pace()
{
	if (!pacer_->timer.on_event() || stopped_ || pacer_->bps <= 0 || !has_to_send())
		return;
	pacer_->sent_at = world_.now();
	send_one();
	pace();
}

// Once a round trip; and once more when all has arrived, to give back what the flow had.
void Sender::ask_for_rate()
{
	RateRequest &request = pacer_->request;
	Packet *packet = world_.packets.take();

	request.leaving = una_ == total_ || stopped_;
	request.wanted_before = request.wanted;
	request.wanted = request.leaving ? 0 : wanted_bps();
	request.hop = 0;
	packet->kind = PacketKind::RateRequest;
	packet->frame_bytes = static_cast<std::uint16_t>(settings_.header_bytes);
	packet->tag = settings_.tags ? SL_TAG_ATTAINED_FIRST : SL_TAG_UNTAGGED;
	stamp(packet);
	port_.accept(packet);
}

double Sender::wanted_bps() const
{
	const FlowSpec &spec = flow_.spec;
	Time left = spec.deadline - world_.now();

	if (!spec.deadline || left <= 0)
		return 0;
	double wire = 1.0 + static_cast<double>(settings_.header_bytes) / settings_.payload_bytes;

	return 8.0 * wire * static_cast<double>(spec.bytes - acked_bytes()) / (static_cast<double>(left) / SECOND);
}

void Sender::on_grant(const Packet &packet)
{
	if (pacer_->request.leaving)
		return;
	round_trip_.sample(world_.now() - packet.sent_at);
	pacer_->bps = pacer_->request.least();
	pacer_->request.first = false;
	ask_for_rate();
	pace();
}

void Sender::send(std::uint32_t number, bool again)
{
	const FlowSpec &spec = flow_.spec;
	Packet *packet = world_.packets.take();
	bool last = number == total_ - 1;
	std::uint32_t payload = last ? static_cast<std::uint32_t>(spec.bytes - static_cast<std::uint64_t>(number) *
										       settings_.payload_bytes)
				     : settings_.payload_bytes;

	scoreboard_.cover(una_, number);
	scoreboard_.set(number, again ? Scoreboard::SentAgain : Scoreboard::Sent);
	if (!again)
		next_ = number + 1;
	else if (rack_)
		on_resent(number);
	if (reordering_)
		reordering_->on_sent({number, again, world_.now()});
	in_flight_++;
	window_.on_sent();
	packet->kind = PacketKind::Data;
	packet->number = number;
	packet->frame_bytes = static_cast<std::uint16_t>(payload + settings_.header_bytes);
	packet->ect = settings_.echo != Echo::None;
	packet->last = last;
	packet->remaining = total_ - una_;
	packet->window_reduced = announce_reduction_ && !again;
	announce_reduction_ &= again;
	packet->tag = tag_of(number);
	stamp(packet);
	arm_timer();
	port_.accept(packet);
}

// The first unacknowledged packet gets a whole timeout to arrive.
void Sender::on_resent(std::uint32_t number)
{
	if (!reordering_)
		rack_->on_sent(number, next_, world_.now());
	eifel_.on_resent(world_.now());
	if (number == una_)
		timer_.clear();
}

// A header that is answered by one: a SYN, or a starved flow's probe.
void Sender::send_bare()
{
	Packet *packet = world_.packets.take();

	packet->kind = PacketKind::Syn;
	packet->remaining = connected_ ? total_ - una_ : 0;
	packet->frame_bytes = static_cast<std::uint16_t>(settings_.header_bytes);
	packet->tag = settings_.tags ? SL_TAG_ATTAINED_FIRST : SL_TAG_UNTAGGED;
	stamp(packet);
	arm_timer();
	port_.accept(packet);
}

void Sender::stamp(Packet *packet)
{
	packet->flow = &flow_;
	packet->destination = flow_.spec.sink;
	packet->sent_at = world_.now();
	packet->path = static_cast<std::uint32_t>(flow_.spec.id * 0x9E3779B97F4A7C15ULL >> 32);
	flow_.packets_under_way++;
	world_.totals.sent++;
}

// Times from when the flow began, which may have been before the clock did.
std::uint32_t Sender::urgency_q16() const
{
	const FlowSpec &spec = flow_.spec;

	return sl_ucp_urgency_q16(0, static_cast<sl_u64>((spec.deadline - spec.began) / NANOSECOND),
				  static_cast<sl_u64>((world_.now() - spec.began) / NANOSECOND));
}

// As dataplane/bpf/tag.bpf.c has it.
std::uint8_t Sender::tag_of(std::uint32_t number) const
{
	const FlowSpec &spec = flow_.spec;
	std::uint64_t attained = static_cast<std::uint64_t>(number) * settings_.payload_bytes;

	if (!settings_.tags)
		return SL_TAG_UNTAGGED;
	if (window_.phase() != SL_SENDING)
		return SL_TAG_BACKGROUND;
	if (settings_.tags_deadlines && spec.is_timed(world_.now(), settings_.forgets_late))
		return static_cast<std::uint8_t>(
			sl_deadline_tag(attained, settings_.urgent_after_bytes, urgency_q16()));
	if (settings_.tags_sizes && spec.size_known)
		return static_cast<std::uint8_t>(sl_known_size_tag(spec.bytes));
	return static_cast<std::uint8_t>(sl_attained_tag(attained));
}

} // namespace sluice
