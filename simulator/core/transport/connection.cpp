// SPDX-License-Identifier: Apache-2.0
#include "transport/connection.hpp"

#include <algorithm>
#include <optional>

#include "transport/flow.hpp"
#include "transport/policies.hpp"
#include "transport/tagging.hpp"

namespace sluice
{

namespace
{

// An endless flow has more packets than it can send.
std::uint32_t total_packets(const FlowSpec &spec, std::uint32_t payload_bytes)
{
	return spec.until ? UINT32_MAX : static_cast<std::uint32_t>(packets_of(spec.bytes, payload_bytes));
}

} // namespace

Connection::Connection(World &world, const TransportSettings &settings, Flow &flow, Port &port)
    : world_(world), settings_(settings), flow_(flow), port_(port),
      total_(total_packets(flow.spec, settings.segment.payload_bytes)),
      window_(settings, make_congestion_control(settings, flow.spec, port.bps())), timeout_(settings.timeout),
      recovery_(settings, window_, rtt_), pacing_(make_pacing(world.timers, settings, flow, port.bps())),
      timer_(world.timers, EventKind::Retransmission, flow)
{
	if (world.trace.flows.contains(flow.spec.id))
		window_.trace = [this](TraceEvent event) {
			std::uint32_t cut_to =
				event == TraceEvent::Window ? UINT32_MAX : window_.slow_start_threshold();

			world_.trace.rows.push_back({.at = now(),
						     .flow = flow_.spec.id,
						     .cwnd = std::min(window_.packets(), cut_to),
						     .event = event});
		};
	if (settings.control != Control::file || !settings.file->hooks().telemetry)
		return;
	telemetry_ = std::make_unique<Telemetry>();
	flow.telemetry = telemetry_.get();
}

std::uint64_t Connection::acked_bytes() const
{
	std::uint64_t bytes = static_cast<std::uint64_t>(board().una()) * settings_.segment.payload_bytes;

	return board().una() == total_ ? flow_.spec.bytes : bytes;
}

void Connection::start(bool opens)
{
	if (opens)
		send_syn();
	else
		establish();
}

void Connection::establish()
{
	connected_ = true;
	window_.begin(rtt_, now());
	pacing_->begin(*this);
}

// It may also answer a starved connection, which continues at once.
void Connection::on_syn_ack(const Packet &packet)
{
	if (!connected_) {
		sample_round_trip(packet);
		timer_.clear();
		establish();
	} else if (timeout_.is_starved()) {
		timeout_.on_ack();
		timer_.clear();
		release();
	}
}

void Connection::sample_round_trip(const Packet &answer)
{
	rtt_.sample(now() - answer.sent_at);
	timeout_.on_sample();
	pacing_->on_answer(*this, answer);
}

void Connection::on_ack(const Packet &ack)
{
	if (is_over())
		return;
	Time now = world_.now(), rtt = now - ack.sent_at;
	bool may_grow = pacing_->lets_grow(*this, !window_is_open());
	std::uint32_t una_before = board().una();
	Delivery delivery = recovery_.deliver(ack);
	Progress progress = {board().una(), board().next(), now};

	timeout_.on_ack();
	sample_round_trip(ack);
	window_.watch_slow_start(progress, rtt, rtt_);
	window_.on_delivered(delivery, ack.ce);
	end_window(progress); // first, so that a cut takes the new alpha, as Linux's in_ack_event before its ssthresh
	LossRecovery::Outcome outcome = recovery_.assess(ack, delivery, now);

	announces_reduction_ |= outcome.cut_for_marks;
	if (window_.is_owned())
		follow(ack, delivery.newly, una_before, may_grow);
	else if (recovery_.is_reducing())
		window_.reduce(board().in_flight(), delivery.newly);
	else if (delivery.advances && !outcome.reached_target)
		grow(delivery.newly, ack.ce, may_grow);
	if (progress.una == total_)
		return stop();
	// An ACK of a packet beyond a gap restarts no timer: the retransmission for the gap may
	// be lost (RFC 6298, section 5.3).
	if (delivery.advances || alarm_ == AlarmKind::Overdue || recovery_.awaits_overtaken())
		restart_timer();
	spares_lost_ = outcome.spares_lost;
	release();
	spares_lost_ = false;
}

// A window that its control owns.
void Connection::follow(const Packet &ack, std::uint32_t newly, std::uint32_t una_before, bool limited)
{
	sl_ack seen = {
		.rtt_ns = static_cast<sl_u64>((now() - ack.sent_at) / NANOSECOND),
		.acked = newly,
		.marked = ack.ce ? newly : 0,
		.limited = limited,
		.round = board().una() > round_end_,
		.hops = 0,
		.hop = nullptr,
	};

	if (seen.round)
		round_end_ = board().next();
	if (telemetry_) {
		const Hops &hops = telemetry_->of(ack.number);

		seen.hops = hops.count;
		seen.hop = hops.of.data();
	}
	if (newly)
		window_.follow(seen, rtt_, now());
	if (telemetry_)
		telemetry_->forget(una_before, board().una(), ack.number);
}

void Connection::grow(std::uint32_t newly, bool marked, bool may_grow)
{
	if (!settings_.tcp.changes_by_advance)
		window_.grow(newly, may_grow, rtt_, now());
	else if (!marked || echoed_before_)
		window_.grow(1, true, rtt_, now());
	echoed_before_ = marked;
}

// If a window of data has ended, the law decides how large the next cut is, and whether the
// flow continues.
void Connection::end_window(const Progress &progress)
{
	std::optional<sl_window_sum> sum = window_.ended(progress, rtt_);

	if (!sum)
		return;
	window_.ask_law(*sum, flow_.spec, acked_bytes(), rtt_, progress.now, world_.random);
	if (window_.phase() == SL_KILLED)
		kill();
}

void Connection::stop()
{
	stopped_ = true;
	timer_.clear();
	pacing_->on_over(*this);
}

void Connection::release()
{
	if (connected_)
		pacing_->release(*this);
}

void Connection::on_grant(const Packet &packet)
{
	sample_round_trip(packet);
	pacing_->on_grant(*this);
}

void Connection::send_one()
{
	if (sends_lost()) {
		count_repeat(retransmissions_, false);
		send(recovery_.take_lost(), true);
	} else {
		send(board().next(), false);
	}
}

void Connection::send(std::uint32_t number, bool again)
{
	Packet *packet = world_.packets.take();

	if (settings_.tag.bursts && burst_at_ != now()) {
		burst_at_ = now();
		burst_last_ = last_that_may_leave();
	}
	recovery_.on_sent(number, again, now());
	window_.on_sent();
	packet->kind = PacketKind::Data;
	packet->number = number;
	packet->frame_bytes = static_cast<std::uint16_t>(payload_of(number) + settings_.segment.header_bytes);
	packet->ect = settings_.ack.echo != Echo::None;
	packet->last = number == total_ - 1;
	if (packet->last && flow_.spec.until)
		throw FlowTooLong(flow_.spec);
	packet->remaining = total_ - board().una();
	packet->window_reduced = announces_reduction_ && !again;
	announces_reduction_ &= again;
	packet->tag = data_tag(settings_, flow_.spec, window_.phase(),
			       static_cast<std::uint64_t>(settings_.tag.bursts ? burst_last_ : number) *
				       settings_.segment.payload_bytes,
			       now());
	if (again && number == board().una() && settings_.timeout.restarts_for_first)
		timer_.clear();
	arm_timer();
	transmit(packet);
}

void Connection::send_piece(std::uint32_t number, std::uint8_t tag, std::uint32_t left, bool again)
{
	Packet *packet = world_.packets.take();

	if (again)
		count_repeat(retransmissions_, false);
	packet->kind = PacketKind::MessageData;
	packet->number = number;
	packet->frame_bytes = static_cast<std::uint16_t>(payload_of(number) + settings_.segment.header_bytes);
	packet->last = number == total_ - 1;
	packet->remaining = left;
	packet->tag = tag;
	transmit(packet);
}

// Of the packets that the window allows now, as dataplane/bpf/cc_ops.bpf.h.
std::uint32_t Connection::last_that_may_leave() const
{
	std::uint64_t room = window_.packets(), in_flight = board().in_flight();

	return static_cast<std::uint32_t>(
		std::min<std::uint64_t>(board().next() + (room > in_flight ? room - in_flight : 1), total_) - 1);
}

std::uint32_t Connection::payload_of(std::uint32_t number) const
{
	std::uint32_t full = settings_.segment.payload_bytes;

	if (number != total_ - 1)
		return full;
	return static_cast<std::uint32_t>(flow_.spec.bytes - static_cast<std::uint64_t>(number) * full);
}

// A SYN, or what a starved connection sends: a header that the receiver answers.
void Connection::send_syn()
{
	arm_timer();
	send_header(PacketKind::Syn);
}

void Connection::send_header(PacketKind kind)
{
	Packet *packet = world_.packets.take();

	packet->kind = kind;
	packet->remaining = kind == PacketKind::Syn && connected_ ? total_ - board().una() : 0;
	packet->frame_bytes = static_cast<std::uint16_t>(settings_.segment.header_bytes);
	packet->tag = header_tag(settings_);
	transmit(packet);
}

void Connection::transmit(Packet *packet)
{
	packet->flow = &flow_;
	packet->destination = flow_.spec.sink;
	packet->sent_at = now();
	packet->path = flow_.path_hash();
	flow_.packets_under_way++;
	if (telemetry_ && packet->kind == PacketKind::Data)
		telemetry_->begin(packet->number);
	if (port_.tells(*packet))
		flow_.host_queue->add(packet->number);
	world_.totals.sent++;
	port_.accept(packet);
}

void Connection::count_repeat(std::uint32_t &counter, bool is_timeout)
{
	counter++;
	if (world_.is_part)
		world_.report.repeats.push_back({&flow_, now(), is_timeout});
}

std::uint32_t Connection::count_by(Time time, std::uint32_t count, bool of_timeouts) const
{
	auto is_later = [&](const Repeat &repeat) {
		return repeat.flow == &flow_ && repeat.is_timeout == of_timeouts && repeat.at > time;
	};
	const auto &repeats = world_.report.repeats;

	return count - static_cast<std::uint32_t>(std::count_if(repeats.begin(), repeats.end(), is_later));
}

void Connection::restart_timer()
{
	timer_.clear();
	if (board().in_flight() || board().lost())
		arm_timer();
}

void Connection::arm_timer()
{
	if (timer_.is_set())
		return;
	set_alarm(recovery_.first_alarm(timeout_.due(rtt_, now()), now()));
}

void Connection::set_alarm(Alarm alarm)
{
	alarm_ = alarm.kind;
	armed_at_ = now();
	timer_.set(alarm.due);
}

void Connection::on_retransmission_timer()
{
	if (!timer_.on_event())
		return;
	switch (alarm_) {
	case AlarmKind::Timeout:
		return on_timeout();
	case AlarmKind::Overdue:
		recovery_.on_overdue(now());
		release();
		return arm_timer();
	case AlarmKind::Probe:
		if (recovery_.may_probe())
			probe();
		else
			arm_timer();
	}
}

// Sends a new packet, even beyond the window, or retransmits the last one.
void Connection::probe()
{
	if (pacing_->holds_back(*this, may_send_new() ? next_new() : recovery_.last_under_way()))
		return set_alarm({AlarmKind::Timeout, std::max(timeout_.due(rtt_, armed_at_), now())});
	std::uint32_t number = recovery_.probe(may_send_new(), now());
	bool again = number < board().next();

	if (again)
		count_repeat(retransmissions_, false);
	send(number, again);
}

void Connection::on_timeout()
{
	count_repeat(timeouts_, true);
	timeout_.on_timeout();
	if (!connected_)
		return send_syn();
	recovery_.on_timeout(now());
	timeout_.on_data_timeout();
	if (timeout_.is_starved())
		send_syn();
	else
		release();
}

} // namespace sluice
