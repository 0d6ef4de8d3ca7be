// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "laws/control.h"
#include "transport/control/congestion_control.hpp"
#include "transport/flow_spec.hpp"

namespace sluice
{

// DATCP (laws/datcp.h): the law keeps a state for each flow, draws at random, and may suspend or
// kill the flow.
class Datcp final : public CongestionControl
{
      public:
	explicit Datcp(const FlowSpec &flow) : flow_(flow)
	{
	}

	void on_window_end(sl_window_record &record, const Observed &observed, Random &random) override
	{
		sl_datcp_goal goal = {
			.timed = flow_.deadline && !flow_.until,
			.may_quench = flow_.on_quench != SL_QUENCH_NEVER,
			.importance_milli = flow_.importance_milli,
			.importance_share_milli = flow_.importance_share_milli,
		};

		record.random = random.next32();
		sl_control_datcp(&state_, &goal, flow_.on_quench,
				 static_cast<sl_u32>(observed.least_rtt / MICROSECOND), &record);
	}

      private:
	const FlowSpec &flow_;
	sl_datcp_state state_ = {};
};

} // namespace sluice
