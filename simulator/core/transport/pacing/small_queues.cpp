// SPDX-License-Identifier: Apache-2.0
#include "transport/pacing/small_queues.hpp"

#include <algorithm>

#include "transport/connection.hpp"
#include "transport/flow.hpp"

namespace sluice
{

namespace
{

constexpr std::uint32_t OVERHEAD_BYTES = 832;	// of a packet's memory, beyond its payload
constexpr std::uint64_t PARTS_OF_SECOND = 1024; // of the pacing rate (sk_pacing_shift)
constexpr std::uint64_t EARLY_PERCENT = 200,
			LATE_PERCENT = 120; // of the rate (tcp_pacing_ss_ratio, tcp_pacing_ca_ratio)

} // namespace

SmallQueues::SmallQueues(TimerEvents &timers, const TransportSettings &settings, Flow &flow)
    : settings_(settings), timer_(timers, EventKind::Pace, flow)
{
	flow.host_queue = &waiting_;
}

void SmallQueues::release(Connection &connection)
{
	bool sent = false, held = false;

	while (connection.window_is_open() && connection.has_to_send()) {
		held = holds_back(connection, connection.next_to_send());
		if (held)
			break;
		connection.send_one();
		sent = true;
	}
	note_use(connection, sent);
	if (held)
		timer_.set(connection.next_departure());
}

void SmallQueues::on_timer(Connection &connection)
{
	if (timer_.on_event())
		release(connection);
}

bool SmallQueues::holds_back(Connection &connection, std::uint32_t number)
{
	bool again = number < connection.next_new();
	std::uint64_t packet_bytes = settings_.segment.payload_bytes + OVERHEAD_BYTES;

	connection.catch_up();
	if (waiting_.holds(number))
		return true;
	return waiting_.packets() * packet_bytes >= limit_bytes(connection, again) && connection.packets_out() > 1;
}

// Two packets, or what the pacing rate sends in a 1024th of a second; twice that for retransmissions.
std::uint64_t SmallQueues::limit_bytes(const Connection &connection, bool again) const
{
	const std::uint64_t two = 2 * (settings_.segment.payload_bytes + OVERHEAD_BYTES);
	const Window &window = connection.window();
	Time rtt = connection.rtt().smoothed();

	if (!rtt)
		return UINT64_MAX;
	std::uint64_t packets = std::max(window.packets(), connection.packets_out());
	std::uint64_t percent = window.packets() < window.slow_start_threshold() / 2 ? EARLY_PERCENT : LATE_PERCENT;
	std::uint64_t rate = packets * settings_.segment.payload_bytes * percent / 100 * SECOND / rtt;

	return std::max(two, rate / PARTS_OF_SECOND) << again;
}

void SmallQueues::note_use(const Connection &connection, bool sent)
{
	bool limited = !connection.window_is_open();
	std::uint32_t out = connection.packets_out();

	if (!sent && !limited)
		return;
	if (connection.una() >= round_end_ || limited || (!is_limited_ && out > most_out_)) {
		is_limited_ = limited;
		most_out_ = out;
		round_end_ = connection.next_new();
	}
}

bool SmallQueues::lets_grow(const Connection &connection, bool) const
{
	const Window &window = connection.window();

	return is_limited_ || (window.in_slow_start() && window.packets() < 2 * most_out_);
}

} // namespace sluice
