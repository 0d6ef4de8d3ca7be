// SPDX-License-Identifier: Apache-2.0
// How Linux finds losses: RACK-TLP (RFC 8985), and the undoing of needless reductions
// (eifel.hpp). While the packets of a flow do not overtake each other, nothing waits for
// reordering (rack.hpp); from then on a reordering window decides (reordering.hpp).
#pragma once

#include <cstdint>
#include <memory>

#include "transport/recovery/eifel.hpp"
#include "transport/recovery/loss_detection.hpp"
#include "transport/recovery/rack.hpp"
#include "transport/recovery/reordering.hpp"

namespace sluice
{

class RackTlp final : public LossDetection
{
      public:
	using LossDetection::LossDetection;

	void on_sent(std::uint32_t number, bool again, Time now) override;
	Finding examine_losses(const Packet &ack, Delivery delivery, bool recovers, Time now) override;
	void detect(const Packet &ack, Time now) override;
	void detect_overdue(Time now) override;
	void on_reaction() override;
	void on_recovery_over() override;
	void on_timeout() override;
	Alarm first_alarm(Alarm timeout, bool open, Time now) const override;
	bool may_probe(bool open) const override;
	std::uint32_t probe(bool may_send_new, Time now) override;
	bool awaits_overtaken() const override;

      private:
	static constexpr Time LEAST_TICKS = 2; // of a timer for a probe or for an overtaken packet

	void begin_reordering(Time now);
	void note_under_way(bool early, Time left_at);
	Time overdue_at(Time now) const;
	void restore_lost(bool recovers, Time now);

	std::uint32_t probed_before_ = 0; // no second probe until una reaches this packet
	Rack rack_;
	LastToLeave last_to_leave_;
	Eifel eifel_;
	// Only once packets of the flow have overtaken each other. Most flows never need it, and
	// it is larger than all else.
	std::unique_ptr<Reordering> reordering_;
};

} // namespace sluice
