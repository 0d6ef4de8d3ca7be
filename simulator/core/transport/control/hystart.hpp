// SPDX-License-Identifier: Apache-2.0
// HyStart (Ha, Rhee, "Taming the elephants: New TCP slow start", Computer Networks 55(9), 2011):
// CUBIC's slow start ends before the buffer overflows. It ends if the ACKs of a round come as one
// train of half a round trip. It also ends if the first ACKs of a round are late. The constants
// are those of Linux, where HyStart is on by default (net/ipv4/tcp_cubic.c).
#pragma once

#include <algorithm>
#include <cstdint>

#include "event/time.hpp"
#include "transport/control/slow_start_ack.hpp"

namespace sluice
{

class HyStart
{
      public:
	static constexpr std::uint32_t LEAST_WINDOW = 16; // packets; below it, slow start continues

	// Whether slow start must end with this ACK.
	bool is_enough(const SlowStartAck &ack)
	{
		least_rtt_ = std::min(least_rtt_, ack.rtt);
		if (ack.cwnd < LEAST_WINDOW)
			return false;
		if (ack.una > round_end_)
			begin_round(ack);
		return has_long_train(ack) || is_late(ack.rtt);
	}

	// After a timeout slow start begins again.
	void forget()
	{
		round_end_ = 0;
	}

      private:
	static constexpr Time TRAIN_GAP = 2 * MILLISECOND;
	static constexpr unsigned SAMPLES = 8; // of the round-trip time in each round
	static constexpr Time LEAST_DELAY = 4 * MILLISECOND, MOST_DELAY = 16 * MILLISECOND;
	static constexpr Time MOST_BURST = MILLISECOND;
	static constexpr std::uint64_t BURST_BYTES = 4 * 65536;

	void begin_round(const SlowStartAck &ack)
	{
		round_end_ = ack.next;
		round_start_ = last_ack_ = ack.now;
		round_rtt_ = NEVER;
		samples_ = 0;
	}

	bool has_long_train(const SlowStartAck &ack)
	{
		if (ack.now - last_ack_ > TRAIN_GAP)
			return false;
		last_ack_ = ack.now;
		return ack.now - round_start_ > (least_rtt_ + burst_time(ack)) / 2;
	}

	// How long a burst of segmentation offload may hold back ACKs, if the sender sends twice
	// its window a round trip.
	static Time burst_time(const SlowStartAck &ack)
	{
		std::uint64_t window_bytes = 2ULL * ack.cwnd * ack.payload_bytes;

		return std::min(MOST_BURST, static_cast<Time>(BURST_BYTES) * (ack.smoothed_rtt / 1000) /
						    static_cast<Time>(window_bytes) * 1000);
	}

	bool is_late(Time rtt)
	{
		round_rtt_ = std::min(round_rtt_, rtt);
		if (samples_ < SAMPLES) {
			samples_++;
			return false;
		}
		return round_rtt_ > least_rtt_ + std::clamp(least_rtt_ / 8, LEAST_DELAY, MOST_DELAY);
	}

	std::uint32_t round_end_ = 0; // the round ends when this packet is acknowledged
	Time round_start_ = 0, last_ack_ = 0;
	Time least_rtt_ = NEVER, round_rtt_ = NEVER;
	unsigned samples_ = 0;
};

} // namespace sluice
