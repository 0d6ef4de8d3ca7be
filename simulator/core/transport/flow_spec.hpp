// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "event/time.hpp"

namespace sluice
{

// One flow as it is ordered.
struct FlowSpec {
	std::uint64_t id = 0;
	std::uint64_t bytes = 0; // at least 1; of an endless flow: whatever it comes to
	Time start = 0;
	Time began = 0;	   // before its start, if it had waited in its program
	Time deadline = 0; // 0: none
	Time until = 0;	   // endless until then; 0: `bytes` long
	std::uint16_t source = 0;
	std::uint16_t sink = 0;
	bool size_known = false;
	std::uint32_t on_quench = 0; // enum sl_on_quench
	std::uint32_t importance_milli = 0;
	std::uint32_t importance_share_milli = 0;

	// Has it a deadline at `now`? One that has passed counts, unless it is forgotten.
	bool is_timed(Time now, bool forgets_late) const
	{
		return deadline && !(forgets_late && now >= deadline);
	}
};

} // namespace sluice
