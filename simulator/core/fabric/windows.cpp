// SPDX-License-Identifier: Apache-2.0
#include "fabric/windows.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <system_error>

#include "fabric/settlement.hpp"

namespace sluice
{

namespace
{

// Enough for a short wait. Tried from 50 to 4,096: between them no difference was found on idle cores.
constexpr unsigned SPINS = 200;

void pause()
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	asm volatile("yield");
#endif
}

} // namespace

Windows::Windows(Network &network, const Parts &parts, Time lookahead, unsigned threads, bool &turn)
    : network_(network), parts_(parts), lookahead_(lookahead), outcomes_(threads), turn_(turn)
{
	std::map<std::uint16_t, std::vector<Part *>> by_stage;

	for (const auto &part : parts)
		by_stage[part->stage].push_back(part.get());
	for (const auto &[number, of_stage] : by_stage) {
		Stage &stage = stages_.emplace_back();

		stage.shares = std::vector<Share>(threads);
		stage.parts = of_stage.size();
		for (std::size_t i = 0; i < of_stage.size(); i++)
			stage.shares[i % threads].parts.push_back(of_stage[i]);
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
	open(0);
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

// Threads that wait until a stage is open.
std::vector<std::thread> Windows::start_others()
{
	std::vector<std::thread> others;

	try {
		for (unsigned thread = 1; thread < outcomes_.size(); thread++)
			others.emplace_back([this, thread] { work(thread); });
	} catch (const std::system_error &error) {
		std::string found = std::to_string(others.size() + 1) + " of " + std::to_string(outcomes_.size());

		stops_ = true;
		open(0);
		for (std::thread &other : others)
			other.join();
		throw ThreadsLacking("the system gives only " + found + " threads: " + error.what());
	}
	return others;
}

// Round 0 is before the first stage.
void Windows::work(unsigned thread)
{
	for (;;) {
		unsigned round = round_.load(std::memory_order_acquire);

		if (over_.load(std::memory_order_relaxed))
			return;
		if (round)
			run_parts((round - 1) % stages_.size(), thread);
		wait(round);
	}
}

void Windows::run_parts(unsigned stage, unsigned thread)
{
	std::vector<Share> &shares = stages_[stage].shares;
	const auto threads = static_cast<unsigned>(shares.size());

	for (unsigned i = 0; i < threads; i++) {
		Share &share = shares[(thread + i) % threads];
		std::size_t place = share.begun.fetch_add(1, std::memory_order_acquire);

		while (place < share.parts.size()) {
			run_part(*share.parts[place], outcomes_[thread]);
			if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1)
				return end_stage(stage, outcomes_[thread]);
			place = share.begun.fetch_add(1, std::memory_order_acquire);
		}
	}
}

void Windows::run_part(Part &part, WindowOutcome &outcome) const
{
	std::uint64_t before = part.world.totals.events;

	try {
		outcome.next = std::min(outcome.next, part.run_window(limit_, turn_));
		outcome.events += part.world.totals.events - before;
		outcome.has_report |= part.has_report();
	} catch (...) {
		outcome.error = std::current_exception();
	}
}

// One thread.
void Windows::end_stage(unsigned stage, WindowOutcome &own)
{
	try {
		for (const WindowOutcome &outcome : outcomes_)
			stops_ |= outcome.error != nullptr;
		if (stage + 1 == stages_.size() && !stops_)
			end_window();
	} catch (...) {
		own.error = std::current_exception();
		stops_ = true;
	}
	open((stage + 1) % stages_.size());
}

void Windows::open(unsigned stage)
{
	if (stops_) {
		over_.store(true, std::memory_order_relaxed);
	} else {
		unfinished_.store(stages_[stage].parts, std::memory_order_relaxed);
		for (Share &share : stages_[stage].shares)
			share.begun.store(0, std::memory_order_release);
	}
	round_.fetch_add(1, std::memory_order_release);
	round_.notify_all();
}

// A thread that waits for long gives its core away. Nobody waits for it meanwhile: others do its work.
void Windows::wait(unsigned round) const
{
	for (unsigned i = 0; i < SPINS; i++) {
		if (round_.load(std::memory_order_acquire) != round)
			return;
		pause();
	}
	round_.wait(round, std::memory_order_acquire);
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
