// SPDX-License-Identifier: Apache-2.0
// The receiving side: what has arrived, and acknowledgements, each packet or delayed, with the marks echoed.
#pragma once

#include <cstdint>

#include "port/port.hpp"
#include "transport/connection.hpp"
#include "transport/settings.hpp"

namespace sluice
{

class Flow;

class Receiver
{
      public:
	Receiver(World &world, const TransportSettings &settings, Flow &flow, Port &port);

	// Takes the packet over: it becomes an acknowledgement, or is given back. True: it was the last byte that was missing.
	bool on_data(Packet *packet);
	void on_syn(Packet *packet);
	void on_rate_request(Packet *packet);

	// An acknowledgement has been delayed long enough.
	void on_timer();

	bool is_complete() const
	{
		return next_expected_ == total_;
	}

	std::uint32_t next_expected() const
	{
		return next_expected_;
	}

	// No packet waits for its acknowledgement.
	bool is_over() const
	{
		return !waiting_;
	}

      private:
	bool arrive(std::uint32_t number);
	bool echo(const Packet &packet);
	bool may_wait(const Packet &packet, bool in_order, bool echo_changed) const;
	void acknowledge(Packet *packet, std::uint32_t number, bool ce, Time sent_at);
	void acknowledge_waiting(bool ce);
	void wait(const Packet &packet);
	void reply(Packet *packet, PacketKind kind);

	World &world_;
	const TransportSettings &settings_;
	Flow &flow_;
	Port &port_;
	std::uint32_t total_ = UINT32_MAX; // known with the last packet
	std::uint32_t next_expected_ = 0;
	std::uint32_t highest_ = 0; // plus one
	Scoreboard arrived_;	    // those beyond a gap

	bool ce_ = false;	    // of the last packet (exact echo), or latched (standard)
	std::uint32_t waiting_ = 0; // packets without an ACK yet
	std::uint32_t last_number_ = 0;
	Time first_sent_at_ = 0;
	Timer timer_;
};

} // namespace sluice
