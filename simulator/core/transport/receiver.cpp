// SPDX-License-Identifier: Apache-2.0
#include "transport/receiver.hpp"

#include <algorithm>

#include "transport/flow.hpp"
#include "transport/tagging.hpp"

namespace sluice
{

namespace
{

constexpr std::uint32_t SACK_BLOCK_BYTES = 8, MOST_SACK_BLOCKS = 3;

} // namespace

Receiver::Receiver(World &world, const TransportSettings &settings, Flow &flow, Port &port)
    : world_(world), settings_(settings), flow_(flow), port_(port), source_(flow.spec.source),
      path_(flow.return_path_hash()), timer_(world.timers, EventKind::AckDelay, flow)
{
}

void Receiver::on_syn(Packet *packet)
{
	reply(packet, PacketKind::SynAck);
}

void Receiver::on_rate_request(Packet *packet)
{
	reply(packet, PacketKind::RateGrant);
}

bool Receiver::on_data(Packet *packet)
{
	bool was_complete = is_complete(), in_order = packet->number == next_expected_ && highest_ <= next_expected_;
	bool ce_before = ce_;

	bool ce = echo(*packet);
	bool changed = settings_.ack.echo == Echo::Exact && ce != ce_before;

	// The packets before this one are acknowledged with the mark that they carried (RFC 8257,
	// section 3.2).
	if (changed && waiting_)
		acknowledge_waiting(ce_before);
	if (packet->last)
		total_ = packet->number + 1;
	packet->duplicate = !arrive(packet->number);
	if (may_wait(*packet, in_order, changed)) {
		wait(*packet);
		absorbed_++;
		world_.packets.put_back(packet);
	} else {
		Time sent_at = waiting_ ? first_sent_at_ : packet->sent_at;

		waiting_ = 0;
		acknowledge(packet, packet->number, ce, sent_at);
	}
	return !was_complete && is_complete();
}

bool Receiver::take(const Packet &packet)
{
	if (packet.last)
		total_ = packet.number + 1;
	return arrive(packet.number);
}

std::uint32_t Receiver::end_of_gap() const
{
	for (std::uint32_t number = next_expected_; number < highest_; number++)
		if (arrived_.at(number) == PacketState::Delivered)
			return number;
	return UINT32_MAX;
}

void Receiver::answer(std::uint32_t number, std::uint32_t until, bool again)
{
	Packet *packet = world_.packets.take();

	packet->flow = &flow_;
	packet->number = number;
	packet->next_expected = until;
	packet->duplicate = again;
	flow_.packets_under_way++;
	reply(packet, PacketKind::MessageAnswer);
}

bool Receiver::arrive(std::uint32_t number)
{
	if (number < next_expected_)
		return false;
	arrived_.cover(next_expected_, std::max(number, highest_));
	if (arrived_.at(number) == PacketState::Delivered)
		return false;
	arrived_.set(number, PacketState::Delivered);
	count_blocks(number);
	highest_ = std::max(highest_, number + 1);
	blocks_ -= number == next_expected_;
	while (next_expected_ < highest_ && arrived_.at(next_expected_) == PacketState::Delivered)
		arrived_.set(next_expected_++, PacketState::Sent);
	return true;
}

// A packet begins a block of its own, extends one, or joins two.
void Receiver::count_blocks(std::uint32_t number)
{
	bool extends = number > next_expected_ && arrived_.at(number - 1) == PacketState::Delivered;
	bool precedes = number + 1 < highest_ && arrived_.at(number + 1) == PacketState::Delivered;

	blocks_ += 1;
	blocks_ -= extends;
	blocks_ -= precedes;
}

// The length of the SACK option (RFC 2018).
std::uint32_t Receiver::sack_bytes() const
{
	if (!settings_.tcp.sack_option_bytes || !blocks_)
		return 0;
	return settings_.tcp.sack_option_bytes + SACK_BLOCK_BYTES * std::min(blocks_, MOST_SACK_BLOCKS);
}

// Whether the ACK of this packet echoes a mark.
bool Receiver::echo(const Packet &packet)
{
	if (settings_.ack.echo == Echo::Standard) {
		if (packet.window_reduced)
			ce_ = false;
		ce_ |= packet.ce;
	} else {
		ce_ = packet.ce;
	}
	return ce_;
}

bool Receiver::may_wait(const Packet &packet, bool in_order, bool echo_changed) const
{
	return waiting_ + 1 < settings_.ack.packets_per_ack && in_order && !echo_changed && !packet.last;
}

void Receiver::wait(const Packet &packet)
{
	if (!waiting_++) {
		first_sent_at_ = packet.sent_at;
		timer_.set(world_.now() + settings_.ack.delay);
	}
	last_number_ = packet.number;
}

void Receiver::on_timer()
{
	if (timer_.on_event() && waiting_)
		acknowledge_waiting(ce_);
}

void Receiver::acknowledge_waiting(bool ce)
{
	waiting_ = 0;
	absorbed_--;
	acknowledge(world_.packets.take(), last_number_, ce, first_sent_at_);
}

void Receiver::acknowledge(Packet *packet, std::uint32_t number, bool ce, Time sent_at)
{
	packet->number = number;
	packet->next_expected = next_expected_;
	packet->ce = ce;
	packet->sent_at = sent_at;
	packet->flow = &flow_;
	reply(packet, PacketKind::Ack);
}

void Receiver::reply(Packet *packet, PacketKind kind)
{
	packet->kind = kind;
	packet->destination = source_;
	packet->frame_bytes = static_cast<std::uint16_t>(settings_.segment.header_bytes +
							 (kind == PacketKind::Ack ? sack_bytes() : 0));
	packet->ect = false;
	packet->last = false;
	packet->remaining = 0;
	packet->window_reduced = false;
	packet->tag = header_tag(settings_);
	packet->path = path_;
	world_.totals.sent++;
	port_.accept(packet);
}

} // namespace sluice
