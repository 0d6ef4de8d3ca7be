// SPDX-License-Identifier: Apache-2.0
#include "transport/pacing/granted_rate.hpp"

#include <algorithm>

#include "transport/flow.hpp"

namespace sluice
{

GrantedRate::GrantedRate(TimerEvents &timers, const TransportSettings &settings, Flow &flow)
    : settings_(settings), spec_(flow.spec), timer_(timers, EventKind::Pace, flow)
{
}

Time GrantedRate::packet_time(double bps) const
{
	double seconds = 8.0 * (settings_.segment.payload_bytes + settings_.segment.header_bytes) / bps;

	return static_cast<Time>(std::min(seconds, 1.0) * SECOND);
}

Time GrantedRate::next_departure(const Connection &connection) const
{
	if (bps_ <= 0 || !connection.has_to_send())
		return NEVER;
	return std::max(connection.now(), sent_at_ + packet_time(bps_));
}

void GrantedRate::send(Connection &connection)
{
	sent_at_ = connection.now();
	connection.send_one();
}

// The next packet leaves when the rate allows it. A grant may bring that forward.
void GrantedRate::release(Connection &connection)
{
	if (Time due = next_departure(connection); due != NEVER)
		timer_.set(due);
}

void GrantedRate::on_timer(Connection &connection)
{
	if (!timer_.on_event() || next_departure(connection) == NEVER)
		return;
	send(connection);
	release(connection);
}

D3Rate::D3Rate(TimerEvents &timers, const TransportSettings &settings, Flow &flow)
    : GrantedRate(timers, settings, flow)
{
	flow.rate_request = &request_;
}

// Asks once a round trip. Asks a last time when all data has arrived, to return the granted rate.
void D3Rate::ask(Connection &connection)
{
	request_.leaving = connection.is_over();
	request_.wanted_before = request_.wanted;
	request_.wanted = request_.leaving ? 0 : wanted_bps(connection);
	request_.hop = 0;
	connection.send_header(PacketKind::RateRequest);
}

double D3Rate::wanted_bps(const Connection &connection) const
{
	Time left = spec_.deadline - connection.now();

	if (!spec_.deadline || left <= 0)
		return 0;
	double wire = 1.0 + static_cast<double>(settings_.segment.header_bytes) / settings_.segment.payload_bytes;

	return 8.0 * wire * static_cast<double>(spec_.bytes - connection.acked_bytes()) /
	       (static_cast<double>(left) / SECOND);
}

void D3Rate::on_answer(Connection &connection, const Packet &)
{
	request_.round_trip = connection.rtt().smoothed();
}

void D3Rate::on_grant(Connection &connection)
{
	if (request_.leaving)
		return;
	bps_ = request_.least();
	request_.first = false;
	ask(connection);
	release(connection);
}

} // namespace sluice
