// SPDX-License-Identifier: Apache-2.0
#include "fabric/settlement.hpp"

#include <algorithm>
#include <utility>

namespace sluice
{

namespace
{

using Parts = std::vector<std::unique_ptr<Part>>;

std::vector<Completion> take_completions(const Parts &parts)
{
	std::vector<Completion> all;

	for (const auto &part : parts) {
		all.insert(all.end(), part->completions.begin(), part->completions.end());
		part->completions.clear();
	}
	std::stable_sort(all.begin(), all.end(),
			 [](const Completion &a, const Completion &b) { return a.at < b.at; });
	return all;
}

// Counts what was dropped, and returns the flows that may be over, each once.
std::vector<Flow *> take_perhaps_over(const Parts &parts)
{
	std::vector<Flow *> all;

	for (const auto &part : parts) {
		for (CarriedFlow *carried : std::exchange(part->world.report.dropped, {})) {
			carried->packets_under_way--;
			all.push_back(static_cast<Flow *>(carried));
		}
		all.insert(all.end(), part->perhaps_over.begin(), part->perhaps_over.end());
		part->perhaps_over.clear();
	}
	std::sort(all.begin(), all.end(),
		  [](const Flow *a, const Flow *b) { return a->id != b->id ? a->id < b->id : a < b; });
	all.erase(std::unique(all.begin(), all.end()), all.end());
	return all;
}

} // namespace

void settle(Network &network, const Parts &parts)
{
	for (const Completion &completion : take_completions(parts)) {
		network.results.push_back(network.result_of(*completion.flow, Outcome::Finished, completion.at));
		completion.flow->reported = true;
	}
	for (Flow *flow : take_perhaps_over(parts))
		if (flow->is_over())
			parts[network.part_of_host[flow->spec.source]]->remove(*flow);
	for (const auto &part : parts)
		part->world.report.repeats.clear();
}

} // namespace sluice
