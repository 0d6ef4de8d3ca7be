// SPDX-License-Identifier: Apache-2.0
// Homa (Montazeri, Li, Alizadeh, Ousterhout, SIGCOMM 2018). A source sends the first packets of a message without being
// asked, at a priority by the message's size. The sink grants the others: to the few messages with the fewest missing
// packets at a time, each at a priority of its own, and to each no more than arrives in a round trip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "event/time.hpp"
#include "event/timer.hpp"
#include "packet/host_queue.hpp"
#include "packet/packet.hpp"
#include "transport/messages/homa_settings.hpp"
#include "transport/messages/message.hpp"

namespace sluice
{

class HomaMessage;

// What a sink knows of all messages that it receives: those that wait for grants.
class HomaSink
{
      public:
	// A packet of this message has come, the first one or a further one.
	void on_arrival(HomaMessage &message, const HomaSettings &settings);

	void forget(const HomaMessage &message);

      private:
	void grant(const HomaSettings &settings);

	std::vector<HomaMessage *> waiting_; // the one with the fewest missing packets first
};

class HomaMessage final : public Message
{
      public:
	HomaMessage(TimerEvents &timers, const HomaSettings &settings, Time timeout, Flow &flow, HomaSink &sink);
	HomaMessage(const HomaMessage &) = delete;
	HomaMessage &operator=(const HomaMessage &) = delete;
	~HomaMessage() override;

	void start() override;
	void on_query(const Packet &packet) override;
	void on_arrival(const Packet &packet) override;
	void on_answer(const Packet &packet) override;
	void on_source_timer() override;
	void on_sink_timer() override;

	// At the sink.

	std::uint32_t missing() const
	{
		return total_ - arrived_;
	}

	// Grants so many packets beyond those that have arrived, at this priority. True if the message needs no more
	// grants.
	bool grant(std::uint32_t ahead, std::uint8_t level);

      private:
	void send_granted();
	std::uint8_t tag_of(std::uint32_t number) const;
	void ask_again();

	const HomaSettings &settings_;
	const Time timeout_;
	Flow &flow_;
	const std::uint32_t total_;	  // packets
	const std::uint32_t unscheduled_; // of them

	// The source.
	std::uint32_t next_ = 0;
	std::uint32_t may_send_;
	std::uint8_t level_;	// of packets that were granted
	bool is_known_ = false; // to the sink
	HostQueue queued_;

	// The sink.
	HomaSink &sink_;
	std::uint32_t arrived_ = 0;
	std::uint32_t granted_;
};

class Homa final : public MessageTransport
{
      public:
	Homa(const HomaSettings &settings, Time timeout) : settings_(settings), timeout_(timeout)
	{
	}

	std::unique_ptr<Message> open(TimerEvents &timers, Flow &flow) override;

      private:
	const HomaSettings settings_;
	const Time timeout_;
	std::unordered_map<std::uint16_t, HomaSink> sinks_; // by host
};

} // namespace sluice
