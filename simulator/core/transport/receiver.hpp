// SPDX-License-Identifier: Apache-2.0
// The receiving end of a connection: which packets have arrived, and the ACKs, for each packet or
// delayed, with echoed marks.
#pragma once

#include <cstdint>

#include "event/time.hpp"
#include "event/timer.hpp"
#include "packet/packet.hpp"
#include "port/port.hpp"
#include "transport/recovery/packet_states.hpp"
#include "transport/settings.hpp"
#include "world/world.hpp"

namespace sluice
{

class Flow;

// On cache lines of its own: the sending end may be simulated by another processor.
class alignas(64) Receiver
{
      public:
	Receiver(World &world, const TransportSettings &settings, Flow &flow, Port &port);

	// Takes the packet over: it becomes an ACK or returns to the pool. True if the last
	// missing byte has arrived with it.
	bool on_data(Packet *packet);
	void on_syn(Packet *packet);
	void on_rate_request(Packet *packet);

	// For a transport of messages (messages/message.hpp).

	// Notes data that has arrived. False if it had arrived before.
	bool take(const Packet &packet);

	// The first packet that has arrived beyond the first missing one; UINT32_MAX if none has.
	SLUICE_SEAM std::uint32_t end_of_gap() const;

	// Sends the source a header with two numbers. `again`: it asks for packets that have not come.
	SLUICE_SEAM void answer(std::uint32_t number, std::uint32_t until, bool again);

	// The event of the timer that delays ACKs came.
	void on_timer();

	bool is_complete() const
	{
		return next_expected_ == total_;
	}

	std::uint32_t next_expected() const
	{
		return next_expected_;
	}

	// Packets that ended here without an ACK of their own, less the ACKs for several of them.
	std::uint32_t absorbed() const
	{
		return absorbed_;
	}

	// No packet waits for its ACK.
	bool is_over() const
	{
		return !waiting_;
	}

      private:
	bool arrive(std::uint32_t number);
	bool echo(const Packet &packet);
	void count_blocks(std::uint32_t number);
	std::uint32_t sack_bytes() const;
	bool may_wait(const Packet &packet, bool in_order, bool echo_changed) const;
	void acknowledge(Packet *packet, std::uint32_t number, bool ce, Time sent_at);
	void acknowledge_waiting(bool ce);
	void wait(const Packet &packet);
	void reply(Packet *packet, PacketKind kind);

	World &world_;
	const TransportSettings &settings_;
	Flow &flow_;
	Port &port_;
	const std::uint16_t source_; // where ACKs go
	const std::uint32_t path_;
	std::uint32_t absorbed_ = 0;
	std::uint32_t total_ = UINT32_MAX; // packets of the flow, once the last has come
	std::uint32_t next_expected_ = 0;
	std::uint32_t highest_ = 0; // the highest packet that has arrived, plus one
	PacketStates arrived_;	    // packets beyond a gap
	std::uint32_t blocks_ = 0;  // of packets in a row beyond a gap

	bool ce_ = false;	    // exact echo: the last packet's mark; standard: latched until CWR
	std::uint32_t waiting_ = 0; // packets without an ACK
	std::uint32_t last_number_ = 0;
	Time first_sent_at_ = 0;
	Timer timer_;
};

} // namespace sluice
