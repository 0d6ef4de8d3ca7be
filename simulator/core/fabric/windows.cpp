// SPDX-License-Identifier: Apache-2.0
#include "fabric/windows.hpp"

#include <algorithm>
#include <thread>

#include "fabric/settlement.hpp"

namespace sluice
{

Windows::Windows(Network &network, const Parts &parts, Time lookahead, unsigned threads, bool &turn)
    : barrier_(threads), network_(network), parts_(parts), lookahead_(lookahead), shares_(threads),
      outcomes_(threads), turn_(turn)
{
	for (std::size_t i = 0; i < parts.size(); i++)
		shares_[i % threads].parts.push_back(parts[i].get());
}

bool Windows::run(Time until, std::uint64_t events)
{
	std::vector<std::thread> others;
	Time next = NEVER;

	until_ = until;
	events_left_ = events;
	for (const auto &part : parts_) {
		part->fetch(turn_);
		next = std::min(next, part->next());
	}
	begin_window(next);
	for (unsigned thread = 1; thread < shares_.size(); thread++)
		others.emplace_back([this, thread] { work(thread); });
	work(0);
	for (std::thread &other : others)
		other.join();
	for (const WindowOutcome &outcome : outcomes_)
		if (outcome.error)
			std::rethrow_exception(outcome.error);
	if (reached_)
		for (const auto &part : parts_)
			part->world.calendar.advance(until);
	return reached_;
}

void Windows::work(unsigned thread)
{
	while (!stops_) {
		run_parts(thread);
		barrier_.arrive([this] { end_window(); });
	}
}

// The thread's own parts first, so that they stay in its cache.
void Windows::run_parts(unsigned thread)
{
	const auto threads = static_cast<unsigned>(shares_.size());
	WindowOutcome &outcome = outcomes_[thread];

	outcome = {};
	try {
		for (unsigned i = 0; i < threads; i++) {
			Share &share = shares_[(thread + i) % threads];
			std::size_t place = share.begun.fetch_add(1, std::memory_order_relaxed);

			while (place < share.parts.size()) {
				run_part(*share.parts[place], outcome);
				place = share.begun.fetch_add(1, std::memory_order_relaxed);
			}
		}
	} catch (...) {
		outcome.error = std::current_exception();
	}
}

void Windows::run_part(Part &part, WindowOutcome &outcome) const
{
	std::uint64_t before = part.world.totals.events;

	part.fetch(turn_);
	outcome.next = std::min(outcome.next, part.run_window(limit_, !turn_));
	outcome.events += part.world.totals.events - before;
	outcome.has_report |= part.has_report();
}

// One thread, while the others wait.
void Windows::end_window()
{
	Time next = NEVER;
	std::uint64_t events = 0;
	bool has_report = false;

	for (const WindowOutcome &outcome : outcomes_) {
		next = std::min(next, outcome.next);
		events += outcome.events;
		has_report |= outcome.has_report;
		stops_ |= outcome.error != nullptr;
	}
	for (Share &share : shares_)
		share.begun.store(0, std::memory_order_relaxed);
	turn_ = !turn_;
	events_left_ -= std::min(events, events_left_);
	if (has_report)
		settle(network_, parts_);
	begin_window(next);
}

void Windows::begin_window(Time next)
{
	reached_ = next > until_;
	stops_ |= reached_ || !events_left_;
	limit_ = reached_ ? until_ : std::min(until_, next + lookahead_ - 1);
}

} // namespace sluice
