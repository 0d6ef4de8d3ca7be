// SPDX-License-Identifier: Apache-2.0
// How a sender finds lost packets before the timeout. The base class is forward acknowledgement
// (Mathis, Mahdavi, SIGCOMM 1996, section 2). A packet is lost once the packet that was sent
// `duplicate_threshold` packets later has arrived. RackTlp extends it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "event/time.hpp"
#include "packet/packet.hpp"
#include "transport/recovery/eifel.hpp"
#include "transport/recovery/scoreboard.hpp"
#include "transport/settings.hpp"
#include "transport/timeout/alarm.hpp"
#include "transport/timeout/rtt_estimator.hpp"

namespace sluice
{

class LossDetection
{
      public:
	LossDetection(const TransportSettings &settings, Scoreboard &board, const RttEstimator &rtt)
	    : settings_(settings), board_(board), rtt_(rtt)
	{
	}

	LossDetection(const LossDetection &) = delete;
	LossDetection &operator=(const LossDetection &) = delete;
	virtual ~LossDetection() = default;

	// Whether on_sent must be called for new packets, too.
	bool watches_new_packets() const
	{
		return watches_new_packets_;
	}

	// A packet has left; `again`: not for the first time.
	virtual void on_sent(std::uint32_t /* number */, bool /* again */, Time /* now */)
	{
	}

	// An ACK has been counted on the scoreboard. Needless: the scoreboard has the packets that were taken
	// for lost in flight again. `recovers`: the sender is in recovery.
	virtual Finding examine_losses(const Packet & /* ack */, Delivery, bool /* recovers */, Time /* now */)
	{
		return Finding::Lost;
	}

	// Marks on the scoreboard the packets that an ACK shows to be lost.
	virtual void detect(const Packet & /* ack */, Time /* now */)
	{
		if (settings_.recovery.duplicate_threshold)
			lose_once_sent_before(passed());
	}

	// Marks the packets that the passing of time shows to be lost.
	virtual void detect_overdue(Time /* now */)
	{
	}

	// The sender begins to react to losses.
	virtual void on_reaction()
	{
	}

	// Every packet that was in flight when the losses were found is acknowledged.
	virtual void on_recovery_over()
	{
	}

	// The timeout came, and every packet on the scoreboard is lost.
	virtual void on_timeout()
	{
		next_to_examine_ = board_.next();
	}

	// The first thing to wait for: the timeout, or what the detection itself waits for.
	// `open`: the sender reacts to no loss.
	virtual Alarm first_alarm(Alarm timeout, bool /* open */, Time /* now */) const
	{
		return timeout;
	}

	// Whether a probe may ask for the last packets.
	virtual bool may_probe(bool /* open */) const
	{
		return false;
	}

	// The packet to send as a probe: a new one if the connection may send one, otherwise the
	// last one.
	virtual std::uint32_t probe(bool /* may_send_new */, Time /* now */)
	{
		return board_.next();
	}

	// Whether an overtaken packet is still awaited.
	virtual bool awaits_overtaken() const
	{
		return false;
	}

      protected:
	// Packets before this number have been passed by `duplicate_threshold` later ones.
	std::uint32_t passed() const
	{
		std::uint32_t threshold = settings_.recovery.duplicate_threshold;

		return board_.highest_delivered() > threshold ? board_.highest_delivered() - threshold : 0;
	}

	void lose_once_sent_before(std::uint32_t end)
	{
		next_to_examine_ = std::max(next_to_examine_, board_.una());
		for (; next_to_examine_ < end; next_to_examine_++)
			if (board_.at(next_to_examine_) == PacketState::Sent)
				board_.lose(next_to_examine_);
	}

	const TransportSettings &settings_;
	Scoreboard &board_;
	const RttEstimator &rtt_;
	std::uint32_t next_to_examine_ = 0; // packets before this one have been examined for losses
	bool watches_new_packets_ = false;
};

} // namespace sluice
