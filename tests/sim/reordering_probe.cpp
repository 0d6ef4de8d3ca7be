// SPDX-License-Identifier: Apache-2.0
// Plays steps on RACK's reordering window, for test_recovery.py.
#include <cstdint>
#include <map>

#include "transport/recovery/reordering.hpp"

using namespace sluice;

namespace
{

enum What : std::int64_t { LEAVES, ARRIVES, ARRIVES_AGAIN, RECOVERY_ENDS };

struct Step {
	std::int64_t at, what, number, una, next;
};

} // namespace

// Writes after each step: lost[i], the packet that is lost now, or -1; and due[i], when the next one
// will be. No step of the tests loses more than one packet.
extern "C" void sluice_reordering(std::int64_t steps, const Step *step, std::int64_t *lost, std::int64_t *due)
{
	Reordering reordering;
	LastToLeave arrived;
	RttEstimator round_trip;
	std::map<std::uint32_t, Time> left, missing;

	for (std::int64_t i = 0; i < steps; i++) {
		auto number = static_cast<std::uint32_t>(step[i].number);
		Time now = step[i].at;

		switch (step[i].what) {
		case LEAVES:
			reordering.on_sent({number, left.contains(number), now});
			left[number] = missing[number] = now;
			break;
		case ARRIVES_AGAIN:
			reordering.on_duplicate(static_cast<std::uint32_t>(step[i].una),
						static_cast<std::uint32_t>(step[i].next));
			break;
		case ARRIVES:
			round_trip.sample(now - left[number]);
			arrived.on_arrival(number, left[number], now);
			missing.erase(number);
			break;
		case RECOVERY_ENDS:
			reordering.on_recovery_over();
		}
		lost[i] = -1;
		reordering.examine(
			arrived, round_trip, now,
			[&](const Reordering::Sent &sent) {
				return missing.contains(sent.number) && missing[sent.number] == sent.at;
			},
			[&](std::uint32_t gone) {
				missing.erase(gone);
				lost[i] = gone;
			});
		due[i] = reordering.due();
	}
}
