// SPDX-License-Identifier: Apache-2.0
// Several threads run through windows whose parts do next to nothing (tests/sim/fake/). As a library: runs until a time,
// and returns 0 if the run reached it, 1 if it threw, and 2 if a part ran at the wrong time.
#include <cstdint>
#include <memory>
#include <stdexcept>

#include "fabric/windows.cpp"

using namespace sluice;

static const Time *fails_at;

void sluice::settle(Network &, const Windows::Parts &parts)
{
	if (parts.front()->now >= *fails_at)
		throw std::runtime_error("settle");
}

extern "C" int run_windows(unsigned threads, Time until, Time fails)
{
	const std::uint16_t stages[] = {0, 0, 0, 2, 2, 5}; // some numbers have no part
	Windows::Parts parts;
	Network network;
	bool turn = false;

	fails_at = &fails;
	for (std::uint16_t stage : stages)
		parts.push_back(std::make_unique<Part>(stage, parts));
	try {
		if (!Windows(network, parts, 1, threads, turn).run(until, UINT64_MAX))
			return 2;
	} catch (const std::runtime_error &) {
		return 1;
	}
	for (const auto &part : parts)
		if (part->now != until || part->was_wrong)
			return 2;
	return 0;
}
