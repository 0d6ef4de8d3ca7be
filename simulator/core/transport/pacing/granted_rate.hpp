// SPDX-License-Identifier: Apache-2.0
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

// D3's sender (Wilson et al., SIGCOMM 2011). Once a round trip it asks every port on the path for
// a rate. It sends at the lowest granted rate.
class GrantedRate final : public Pacing
{
      public:
	GrantedRate(TimerEvents &timers, const TransportSettings &settings, Flow &flow);

	void begin(Connection &connection) override
	{
		ask(connection);
	}

	void release(Connection &connection) override;

	void on_round_trip(Time smoothed) override
	{
		request_.round_trip = smoothed;
	}

	void on_grant(Connection &connection) override;
	void on_timer(Connection &connection) override;

      private:
	void ask(Connection &connection);
	double wanted_bps(const Connection &connection) const;
	bool may_send(const Connection &connection) const;

	const TransportSettings &settings_;
	const FlowSpec &spec_;
	RateRequest request_;
	double bps_ = 0;
	Time sent_at_ = -SECOND; // the last packet
	Timer timer_;
};

} // namespace sluice
