// SPDX-License-Identifier: Apache-2.0
// Plays a script of additions and takings on the event calendar, for test_calendar.py.
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

// Step i adds an event delay[i] from now, or, if delay[i] < 0, takes the next event that is due within
// ~delay[i]. Writes for each taking: the number of the event, counted from 0, or -1 if none was due;
// and the clock after it. Returns the number of takings.
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
