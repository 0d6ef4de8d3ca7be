// SPDX-License-Identifier: Apache-2.0
// Senders that send at the rate that the ports on the path grant.
#pragma once

#include "event/time.hpp"
#include "event/timer.hpp"
#include "packet/rate_request.hpp"
#include "transport/flow_spec.hpp"
#include "transport/pacing/pacing.hpp"
#include "transport/settings.hpp"

namespace sluice
{

class Flow;

class GrantedRate : public Pacing
{
      public:
	GrantedRate(TimerEvents &timers, const TransportSettings &settings, Flow &flow);

	void release(Connection &connection) override;
	void on_timer(Connection &connection) override;

      protected:
	// How long a packet of full size takes at a rate; at most a second.
	Time packet_time(double bps) const;

	// When the next packet may leave; NEVER if none may.
	Time next_departure(const Connection &connection) const;
	void send(Connection &connection);

	const TransportSettings &settings_;
	const FlowSpec &spec_;
	double bps_ = 0;
	Timer timer_;

      private:
	Time sent_at_ = -SECOND; // the last packet
};

// D3's sender (Wilson et al., SIGCOMM 2011). Once a round trip it asks every port on the path for
// a rate. It sends at the lowest granted rate.
class D3Rate final : public GrantedRate
{
      public:
	D3Rate(TimerEvents &timers, const TransportSettings &settings, Flow &flow);

	void begin(Connection &connection) override
	{
		ask(connection);
	}

	void on_answer(Connection &connection, const Packet &packet) override;
	void on_grant(Connection &connection) override;

      private:
	void ask(Connection &connection);
	double wanted_bps(const Connection &connection) const;

	RateRequest request_;
};

} // namespace sluice
