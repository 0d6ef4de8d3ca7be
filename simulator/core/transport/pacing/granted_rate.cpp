// SPDX-License-Identifier: Apache-2.0
#include "transport/pacing/granted_rate.hpp"

#include <algorithm>

#include "transport/flow.hpp"

namespace sluice
{

GrantedRate::GrantedRate(TimerEvents &timers, const TransportSettings &settings, Flow &flow)
    : settings_(settings), spec_(flow.spec), timer_(timers, EventKind::Pace, flow)
{
	flow.rate_request = &request_;
}

bool GrantedRate::may_send(const Connection &connection) const
{
	return bps_ > 0 && connection.has_to_send();
}

// The next packet leaves when the rate allows it. A grant may bring that forward.
void GrantedRate::release(Connection &connection)
{
	if (!may_send(connection))
		return;
	double gap_s = 8.0 * (settings_.segment.payload_bytes + settings_.segment.header_bytes) / bps_;
	Time gap = static_cast<Time>(std::min(gap_s, 1.0) * SECOND);

	timer_.set(std::max(connection.now(), sent_at_ + gap));
}

void GrantedRate::on_timer(Connection &connection)
{
	if (!timer_.on_event() || !may_send(connection))
		return;
	sent_at_ = connection.now();
	connection.send_one();
	release(connection);
}

// Asks once a round trip. Asks a last time when all data has arrived, to return the granted rate.
void GrantedRate::ask(Connection &connection)
{
	request_.leaving = connection.is_over();
	request_.wanted_before = request_.wanted;
	request_.wanted = request_.leaving ? 0 : wanted_bps(connection);
	request_.hop = 0;
	connection.send_header(PacketKind::RateRequest);
}

double GrantedRate::wanted_bps(const Connection &connection) const
{
	Time left = spec_.deadline - connection.now();

	if (!spec_.deadline || left <= 0)
		return 0;
	double wire = 1.0 + static_cast<double>(settings_.segment.header_bytes) / settings_.segment.payload_bytes;

	return 8.0 * wire * static_cast<double>(spec_.bytes - connection.acked_bytes()) /
	       (static_cast<double>(left) / SECOND);
}

void GrantedRate::on_grant(Connection &connection)
{
	bps_ = request_.least();
	request_.first = false;
	ask(connection);
	release(connection);
}

} // namespace sluice
