// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "event/time.hpp"
#include "event/timer.hpp"
#include "transport/pacing/pacing.hpp"

namespace sluice
{

class Flow;

// A control that owns its window also says at what rate packets leave. A window below one packet leaves a packet in
// more than one round trip.
class Paced final : public Pacing
{
      public:
	Paced(TimerEvents &timers, Flow &flow);

	void begin(Connection &connection) override
	{
		release(connection);
	}

	void release(Connection &connection) override;
	void on_timer(Connection &connection) override;

      private:
	Time sent_at_ = -SECOND; // the last packet
	Timer timer_;
};

} // namespace sluice
