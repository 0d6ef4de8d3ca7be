// SPDX-License-Identifier: Apache-2.0
#include "fabric/windows.hpp"

#include <algorithm>
#include <string>
#include <system_error>

#include "fabric/settlement.hpp"

namespace sluice
{

Windows::Windows(Network &network, const Parts &parts, Time lookahead, unsigned threads, bool &turn)
    : barrier_(threads), network_(network), parts_(parts), lookahead_(lookahead), outcomes_(threads), turn_(turn)
{
	std::vector<std::size_t> parts_of_stage;

	for (const auto &part : parts) {
		while (stages_.size() <= part->stage)
			stages_.emplace_back(threads);
		parts_of_stage.resize(stages_.size());
		std::size_t place = parts_of_stage[part->stage]++;
		stages_[part->stage][place % threads].parts.push_back(part.get());
	}
}

bool Windows::run(Time until, std::uint64_t events)
{
	std::vector<std::thread> others = start_others();
	Time next = NEVER;

	until_ = until;
	events_left_ = events;
	for (const auto &part : parts_)
		next = std::min(next, part->prepare(turn_));
	begin_window(next);
	release(Start::Runs);
	work(0);
	for (std::thread &other : others)
		other.join();
	for (const WindowOutcome &outcome : outcomes_)
		if (outcome.error)
			std::rethrow_exception(outcome.error);
	for (const auto &part : parts_)
		part->world.calendar.advance(reached_ ? until : ended_);
	return reached_;
}

// Threads that wait until they are released.
std::vector<std::thread> Windows::start_others()
{
	std::vector<std::thread> others;

	try {
		for (unsigned thread = 1; thread < outcomes_.size(); thread++)
			others.emplace_back([this, thread] {
				start_.wait(Start::Waits);
				if (start_ == Start::Runs)
					work(thread);
			});
	} catch (const std::system_error &error) {
		std::string found = std::to_string(others.size() + 1) + " of " + std::to_string(outcomes_.size());

		release(Start::Fails);
		for (std::thread &other : others)
			other.join();
		throw ThreadsLacking("the system gives only " + found + " threads: " + error.what());
	}
	return others;
}

void Windows::release(Start start)
{
	start_ = start;
	start_.notify_all();
}

void Windows::work(unsigned thread)
{
	outcomes_[thread] = {};
	for (std::size_t stage = 0; !stops_; stage = (stage + 1) % stages_.size()) {
		run_parts(stages_[stage], thread);
		barrier_.arrive([this, stage] { end_stage(stage); });
	}
}

// The thread's own parts first, so that they stay in its cache.
void Windows::run_parts(std::vector<Share> &shares, unsigned thread)
{
	const auto threads = static_cast<unsigned>(shares.size());
	WindowOutcome &outcome = outcomes_[thread];

	try {
		for (unsigned i = 0; i < threads; i++) {
			Share &share = shares[(thread + i) % threads];
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

	outcome.next = std::min(outcome.next, part.run_window(limit_, turn_));
	outcome.events += part.world.totals.events - before;
	outcome.has_report |= part.has_report();
}

// One thread, while the others wait.
void Windows::end_stage(std::size_t stage)
{
	for (Share &share : stages_[stage])
		share.begun.store(0, std::memory_order_relaxed);
	for (const WindowOutcome &outcome : outcomes_)
		stops_ |= outcome.error != nullptr;
	if (stage + 1 == stages_.size() && !stops_)
		end_window();
}

void Windows::end_window()
{
	Time next = NEVER;
	std::uint64_t events = 0;
	bool has_report = false;

	for (WindowOutcome &outcome : outcomes_) {
		next = std::min(next, outcome.next);
		events += outcome.events;
		has_report |= outcome.has_report;
		outcome = {};
	}
	turn_ = !turn_;
	ended_ = limit_;
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
