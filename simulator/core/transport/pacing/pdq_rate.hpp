// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "packet/scheduling_header.hpp"
#include "transport/pacing/granted_rate.hpp"

namespace sluice
{

// PDQ's sender (Hong, Caesar, Godfrey, SIGCOMM 2012, section 3.2). Every packet asks the ports on the path for the rate of
// the host's link. The sender follows the answers; while it has to wait, it probes.
class PdqRate final : public GrantedRate
{
      public:
	PdqRate(TimerEvents &timers, const TransportSettings &settings, Flow &flow, std::uint64_t link_bps);

	void begin(Connection &connection) override;
	void release(Connection &connection) override;
	void on_answer(Connection &connection, const Packet &packet) override;
	void on_timer(Connection &connection) override;
	void on_over(Connection &connection) override;

	void on_grant(Connection &connection) override
	{
		release(connection);
	}

	bool holds_back(Connection &, std::uint32_t) override
	{
		return bps_ <= 0;
	}

      private:
	void note_left(std::uint64_t packets);
	Time next_probe() const;
	void probe(Connection &connection);

	SchedulingHeaders headers_;
	double probing_trips_ = 1;
	Time asked_at_ = 0; // the last packet of any kind
};

} // namespace sluice
