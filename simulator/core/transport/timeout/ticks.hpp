// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "event/time.hpp"

namespace sluice
{

// The time of a timer that is set for `delay` from now. Linux counts delays in whole ticks, and its timer wheel fires
// with the tick after, so that no timer is early (calc_index in kernel/time/timer.c).
constexpr Time fires_at(Time now, Time delay, Time tick)
{
	return tick ? (now / tick + (delay + tick - 1) / tick + 1) * tick : now + delay;
}

} // namespace sluice
