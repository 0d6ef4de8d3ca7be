// SPDX-License-Identifier: Apache-2.0
// Where threads wait for each other. A wait is far shorter than waking a thread takes, so they
// spin first.
#pragma once

#include <atomic>

namespace sluice
{

class Barrier
{
      public:
	explicit Barrier(unsigned threads) : threads_(threads)
	{
	}

	// Returns when all threads have arrived and one of them has called `last`.
	template <class Last> void arrive(Last &&last)
	{
		unsigned round = round_.load(std::memory_order_acquire);

		if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < threads_)
			return wait(round);
		arrived_.store(0, std::memory_order_relaxed);
		last();
		round_.store(round + 1, std::memory_order_release);
		round_.notify_all();
	}

      private:
	static constexpr unsigned SPINS = 4096;

	void wait(unsigned round)
	{
		for (unsigned i = 0; i < SPINS; i++) {
			if (round_.load(std::memory_order_acquire) != round)
				return;
			pause();
		}
		round_.wait(round, std::memory_order_acquire);
	}

	static void pause()
	{
#if defined(__x86_64__) || defined(__i386__)
		__builtin_ia32_pause();
#elif defined(__aarch64__)
		asm volatile("yield");
#endif
	}

	alignas(64) std::atomic<unsigned> arrived_ = 0;
	alignas(64) std::atomic<unsigned> round_ = 0;
	const unsigned threads_;
};

} // namespace sluice
