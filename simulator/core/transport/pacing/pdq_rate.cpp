// SPDX-License-Identifier: Apache-2.0
#include "transport/pacing/pdq_rate.hpp"

#include <algorithm>

#include "laws/control.h"
#include "transport/flow.hpp"

namespace sluice
{

PdqRate::PdqRate(TimerEvents &timers, const TransportSettings &settings, Flow &flow, std::uint64_t link_bps)
    : GrantedRate(timers, settings, flow)
{
	headers_.next.bps = static_cast<double>(link_bps);
	headers_.next.deadline = spec_.deadline ? spec_.deadline : NEVER;
	note_left(spec_.until ? UINT32_MAX : packets_of(spec_.bytes, settings.segment.payload_bytes));
	flow.scheduling = &headers_;
}

void PdqRate::note_left(std::uint64_t packets)
{
	double time = static_cast<double>(packets) * static_cast<double>(packet_time(headers_.next.bps));

	headers_.next.left = static_cast<Time>(std::min(time, static_cast<double>(NEVER) / 2));
}

// A SYN has asked already.
void PdqRate::begin(Connection &connection)
{
	if (!connection.rtt().smoothed())
		probe(connection);
	release(connection);
}

void PdqRate::release(Connection &connection)
{
	if (connection.has_to_send())
		timer_.set(std::max(connection.now(), std::min(next_departure(connection), next_probe())));
}

// A sender that sends a packet in more than a round trip probes, too. None probes more often than its link carries packets.
Time PdqRate::next_probe() const
{
	Time trip = headers_.next.round_trip ? headers_.next.round_trip : settings_.timeout.initial;

	return asked_at_ + std::max(static_cast<Time>(probing_trips_ * static_cast<double>(trip)),
				    packet_time(headers_.next.bps));
}

void PdqRate::on_timer(Connection &connection)
{
	const Time now = connection.now();

	if (!timer_.on_event() || !connection.has_to_send())
		return;
	if (next_departure(connection) <= now) {
		asked_at_ = now;
		note_left(connection.total() - connection.next_new());
		send(connection);
	} else if (next_probe() <= now) {
		probe(connection);
	}
	release(connection);
}

void PdqRate::probe(Connection &connection)
{
	asked_at_ = connection.now();
	connection.send_header(PacketKind::RateRequest);
}

// A flow that would miss its deadline ends (Early Termination, section 3.2), or goes on as one without a deadline.
void PdqRate::on_answer(Connection &connection, const Packet &packet)
{
	const auto header = headers_.take(packet.sent_at);
	SchedulingHeader &next = headers_.next;

	if (!header || connection.is_over())
		return;
	bps_ = header->paused_by ? 0 : header->bps;
	probing_trips_ = header->probing_trips;
	next.paused_by = header->paused_by;
	next.round_trip = connection.rtt().smoothed();
	note_left(connection.total() - connection.next_new());
	if (connection.now() <= next.deadline - std::max(next.left, bps_ > 0 ? 0 : next.round_trip))
		return;
	next.deadline = NEVER;
	if (spec_.on_quench == SL_QUENCH_KILL)
		connection.kill();
}

// Ports forget a flow that is over (TERM).
void PdqRate::on_over(Connection &connection)
{
	if (headers_.leaving)
		return;
	headers_.leaving = true;
	connection.send_header(PacketKind::RateRequest);
}

} // namespace sluice
