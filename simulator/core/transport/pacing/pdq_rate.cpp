// SPDX-License-Identifier: Apache-2.0
#include "transport/pacing/pdq_rate.hpp"

#include <algorithm>
#include <utility>

#include "laws/control.h"
#include "transport/flow.hpp"

namespace sluice
{

PdqRate::PdqRate(TimerEvents &timers, const TransportSettings &settings, Flow &flow, std::uint64_t link_bps)
    : GrantedRate(timers, settings, flow)
{
	headers_.next.bps = static_cast<double>(link_bps);
	headers_.next.left =
		time_of(spec_.until ? UINT32_MAX : packets_of(spec_.bytes, settings.segment.payload_bytes));
	if (spec_.deadline)
		headers_.next.deadline = spec_.deadline;
	flow.scheduling = &headers_;
}

Time PdqRate::time_of(std::uint64_t packets) const
{
	double time = static_cast<double>(packets) * static_cast<double>(packet_time(headers_.next.bps));

	return static_cast<Time>(std::min(time, static_cast<double>(NEVER) / 2));
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
	if (!connection.has_to_send())
		return;
	Time due = std::max(connection.now(), next_probe());

	timer_.set(bps_ > 0 ? std::min(due, next_departure(connection)) : due);
}

// A sender that sends a packet in more than a round trip probes, too. None probes more often than its link carries packets.
Time PdqRate::next_probe() const
{
	Time trip = headers_.next.round_trip ? headers_.next.round_trip : settings_.timeout.initial;

	return asked_at_ + std::max(static_cast<Time>(probing_trips_ * static_cast<double>(trip)), time_of(1));
}

void PdqRate::on_timer(Connection &connection)
{
	if (!timer_.on_event() || !connection.has_to_send())
		return;
	if (bps_ > 0 && next_departure(connection) <= connection.now()) {
		asked_at_ = connection.now();
		headers_.next.left = time_of(connection.total() - connection.next_new());
		send(connection);
	} else if (next_probe() <= connection.now()) {
		probe(connection);
	}
	release(connection);
}

void PdqRate::probe(Connection &connection)
{
	asked_at_ = connection.now();
	connection.send_header(PacketKind::RateRequest);
}

void PdqRate::on_answer(Connection &connection, const Packet &packet)
{
	auto header = headers_.take(packet.sent_at);

	if (!header || connection.is_over())
		return;
	bps_ = header->paused_by ? 0 : header->bps;
	probing_trips_ = header->probing_trips;
	headers_.next.paused_by = header->paused_by;
	headers_.next.round_trip = connection.rtt().smoothed();
	end_if_late(connection);
}

// Early Termination (section 3.2). A flow whose program would rather be late loses its deadline instead.
void PdqRate::end_if_late(Connection &connection)
{
	const Time trip = bps_ > 0 ? 0 : headers_.next.round_trip;
	const Time left = time_of(connection.total() - connection.next_new());

	if (connection.now() <= headers_.next.deadline - std::max(trip, left))
		return;
	headers_.next.deadline = NEVER;
	if (spec_.on_quench == SL_QUENCH_KILL)
		connection.kill();
}

// Ports forget a flow that ends (TERM).
void PdqRate::on_over(Connection &connection)
{
	if (std::exchange(headers_.leaving, true))
		return;
	connection.send_header(PacketKind::RateRequest);
}

} // namespace sluice
