// SPDX-License-Identifier: Apache-2.0
// The event calendar for test_calendar.py: a script of additions and takings in, what was taken
// and when out.
#include <cstdint>
#include <memory>
#include <vector>

#include "event/calendar.hpp"

using namespace sluice;

namespace
{

struct Numbered : Event {
	std::int64_t number = 0;
};

} // namespace

// delay[i] >= 0: add an event so much later. delay[i] < 0: take what is due within ~delay[i]. Of
// each taking: the number of the event (additions count from 0; -1: none was due), and the clock
// after it. Returns the number of takings.
extern "C" std::int64_t sluice_run_script(std::int64_t near, std::int64_t steps, const std::int64_t *delay,
					  std::int64_t *taken, std::int64_t *clock)
{
	Calendar calendar(near);
	std::vector<std::unique_ptr<Numbered>> events;
	std::int64_t takings = 0;

	for (std::int64_t i = 0; i < steps; i++) {
		if (delay[i] >= 0) {
			auto &event = *events.emplace_back(std::make_unique<Numbered>());
			event.number = static_cast<std::int64_t>(events.size()) - 1;
			event.at = calendar.now() + delay[i];
			calendar.add(&event);
		} else {
			Event *event = calendar.take(calendar.now() + ~delay[i]);
			taken[takings] = event ? static_cast<Numbered *>(event)->number : -1;
			clock[takings++] = calendar.now();
		}
	}
	return takings;
}
