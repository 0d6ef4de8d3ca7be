// SPDX-License-Identifier: Apache-2.0
// Runs the parts of a network on several threads, window by window.
//
// In a window, parts run stage by stage. A part that runs after all that feed it knows everything that
// reaches it in the window. So a link to a part of a later stage may be as short as it likes. What leaves by
// any other link needs at least `lookahead` to reach its far end, and a window lasts that long, from the earliest
// event on. So no part has to take an event back (a synchronous conservative window: Lubachevsky, "Efficient
// distributed event-driven simulations of multiple-loop networks", CACM 32(1), 1989; Nicol, "The cost of
// conservative synchronization in parallel discrete event simulations", JACM 40(2), 1993).
//
// The number of threads changes no result: it only decides who runs a part.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "event/time.hpp"
#include "fabric/barrier.hpp"
#include "fabric/network.hpp"
#include "fabric/part.hpp"

namespace sluice
{

// The system starts no further thread.
class ThreadsLacking : public std::runtime_error
{
      public:
	using std::runtime_error::runtime_error;
};

class Windows
{
      public:
	using Parts = std::vector<std::unique_ptr<Part>>;

	// `turn` says in which mailboxes the last window posted. It goes from one run to the next.
	Windows(Network &network, const Parts &parts, Time lookahead, unsigned threads, bool &turn);

	// As Fabric::run, once. It stops between two windows. Throws ThreadsLacking.
	bool run(Time until, std::uint64_t events);

      private:
	// The parts of one thread in one stage.
	struct alignas(64) Share {
		std::vector<Part *> parts;
		std::atomic<std::size_t> begun = 0; // by this thread, or by one that had nothing left to do
	};

	// What one thread leaves for the end of a window.
	struct alignas(64) WindowOutcome {
		Time next = NEVER;
		std::uint64_t events = 0;
		bool has_report = false;
		std::exception_ptr error = nullptr;
	};

	enum class Start : std::uint8_t { Waits, Runs, Fails };

	std::vector<std::thread> start_others();
	void release(Start start);
	void work(unsigned thread);
	void run_parts(std::vector<Share> &shares, unsigned thread);
	void run_part(Part &part, WindowOutcome &outcome) const;
	void end_stage(std::size_t stage);
	void end_window();
	void begin_window(Time next);

	Barrier barrier_;
	Network &network_;
	const Parts &parts_;
	const Time lookahead_;
	std::vector<std::vector<Share>> stages_; // in each stage one share for each thread
	std::vector<WindowOutcome> outcomes_;	 // one for each thread
	bool &turn_;
	Time until_ = 0, limit_ = 0, ended_ = 0;
	std::uint64_t events_left_ = 0;
	std::atomic<Start> start_ = Start::Waits;
	bool stops_ = false, reached_ = false;
};

} // namespace sluice
