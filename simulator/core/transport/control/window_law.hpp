// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "laws/control.h"
#include "transport/control/congestion_control.hpp"

namespace sluice
{

// A control that is a law without a state of its own (SL_WINDOW_LAWS).
template <void (*law)(sl_window_record *)> class WindowLaw final : public CongestionControl
{
      public:
	void on_window_end(sl_window_record &record, const Observed &, Random &) override
	{
		law(&record);
	}
};

// A mark counts as a loss does: the window halves. Reno and pFabric; of no effect under D3, PDQ and Homa.
inline void halve(sl_window_record *record)
{
	record->penalty_q20 = SL_DCTCP_ALPHA_ONE;
}

using Reno = WindowLaw<halve>;

} // namespace sluice
