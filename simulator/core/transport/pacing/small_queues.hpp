// SPDX-License-Identifier: Apache-2.0
// TCP small queues (Linux, tcp_small_queue_check): a connection keeps only so much in its host's own queues as it sends
// in about a millisecond. The rest waits in its socket, even if the window has room. A packet that still waits in the
// host is not retransmitted (skb_still_in_host_queue). A window that is not used does not grow (tcp_is_cwnd_limited).
#pragma once

#include <cstdint>

#include "event/timer.hpp"
#include "packet/host_queue.hpp"
#include "transport/pacing/pacing.hpp"
#include "transport/settings.hpp"

namespace sluice
{

class Flow;

class SmallQueues final : public Pacing
{
      public:
	SmallQueues(TimerEvents &timers, const TransportSettings &settings, Flow &flow);

	void begin(Connection &connection) override
	{
		release(connection);
	}

	void release(Connection &connection) override;
	void on_timer(Connection &connection) override;
	bool holds_back(Connection &connection, std::uint32_t number) override;
	bool lets_grow(const Connection &connection, bool limited) const override;

      private:
	std::uint64_t limit_bytes(const Connection &connection, bool again) const;
	void note_use(const Connection &connection, bool sent);

	const TransportSettings &settings_;
	HostQueue waiting_;
	Timer timer_; // the next packet leaves the host

	// How far the window was used (tcp_cwnd_validate).
	bool is_limited_ = false;
	std::uint32_t most_out_ = 0;
	std::uint32_t round_end_ = 0;
};

} // namespace sluice
