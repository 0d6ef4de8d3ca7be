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

// The padding keeps what threads wait for on cache lines of its own.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
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
		std::atomic<std::size_t> begun =
			SIZE_MAX / 2; // by this thread, or by one that had nothing left to do
	};

	struct Stage {
		std::vector<Share> shares; // one for each thread
		std::size_t parts = 0;
	};

	// What one thread leaves for the end of a window.
	struct alignas(64) WindowOutcome {
		Time next = NEVER;
		std::uint64_t events = 0;
		bool has_report = false;
		std::exception_ptr error = nullptr;
	};

	std::vector<std::thread> start_others();
	void work(unsigned thread);
	void run_parts(unsigned stage, unsigned thread);
	void run_part(Part &part, WindowOutcome &outcome) const;
	void end_stage(unsigned stage, WindowOutcome &outcome);
	void end_window();
	void begin_window(Time next);
	void open(unsigned stage);
	void wait(unsigned round) const;

	Network &network_;
	const Parts &parts_;
	const Time lookahead_;
	std::vector<Stage> stages_;
	std::vector<WindowOutcome> outcomes_; // one for each thread
	bool &turn_;
	Time until_ = 0, limit_ = 0, ended_ = 0;
	std::uint64_t events_left_ = 0;
	bool stops_ = false, reached_ = false;
	alignas(64) std::atomic<std::size_t> unfinished_ = 0; // parts of the stage
	alignas(64) std::atomic<unsigned> round_ = 0;	      // stages that have begun, all windows counted
	std::atomic<bool> over_ = false;
};

} // namespace sluice
