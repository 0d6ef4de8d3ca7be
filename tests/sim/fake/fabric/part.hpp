// SPDX-License-Identifier: Apache-2.0
// A part with one event in each unit of time, of which each must come after those of earlier stages.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "event/time.hpp"

namespace sluice
{

struct Network {
};

struct Part {
	Part(std::uint16_t of_stage, const std::vector<std::unique_ptr<Part>> &others)
	    : stage(of_stage), parts(others)
	{
	}

	Time prepare(bool)
	{
		return now + 1;
	}

	Time run_window(Time limit, bool)
	{
		for (const auto &other : parts)
			if (other.get() != this)
				was_wrong |= other->stage < stage ? other->now != limit
								  : other->stage > stage && other->now >= limit;
		was_wrong |= now != limit - 1;
		now = limit;
		world.totals.events++;
		return now + 1;
	}

	bool has_report() const
	{
		return true;
	}

	struct {
		struct {
			std::uint64_t events = 0;
		} totals;
		struct {
			void advance(Time)
			{
			}
		} calendar;
	} world;
	const std::uint16_t stage;
	const std::vector<std::unique_ptr<Part>> &parts;
	Time now = 0;
	bool was_wrong = false;
};

} // namespace sluice
