// SPDX-License-Identifier: Apache-2.0
#include "port/critical_flows.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace sluice
{

namespace
{

constexpr double EARLY_START_TRIPS = 2;	   // K
constexpr double PROBING_TRIPS = 0.2;	   // X, for each flow that is more critical
constexpr std::size_t LISTED_FOR_EACH = 2; // flows for each that sends
constexpr int CONTROL_TRIPS = 2;

} // namespace

// The earliest deadline first, then the shortest.
bool CriticalFlows::ListedFlow::operator<(const ListedFlow &other) const
{
	return std::tie(deadline, left, id) < std::tie(other.deadline, other.left, other.id);
}

double CriticalFlows::ListedFlow::trips_left() const
{
	return round_trip ? static_cast<double>(left) / static_cast<double>(round_trip)
			  : std::numeric_limits<double>::infinity();
}

void CriticalFlows::on_request(std::uint64_t id, SchedulingHeader &header, Time now, double link_bps,
			       double backlog_bits)
{
	control_rate(now, link_bps, backlog_bits);
	if (header.hops < PDQ_MAX_HOPS)
		header.path[header.hops++] = this;
	if (header.paused_by && header.paused_by != this)
		return forget(id);
	const std::size_t place = list(header, id);
	const double bps = place < flows_.size() ? std::min(available(place), header.bps) : 0;

	header.paused_by = this;
	if (place == flows_.size()) {
		header.probing_trips = std::max(header.probing_trips, PROBING_TRIPS * static_cast<double>(place));
		return;
	}
	ListedFlow &flow = flows_[place];
	const bool may_send = bps > 0 && !(flow.is_paused && now < calm_until_);

	if (may_send && flow.is_paused)
		calm_until_ = now + flow.round_trip;
	flow.is_paused = !may_send;
	flow.bps = may_send ? bps : 0;
	if (may_send) {
		header.paused_by = nullptr;
		header.bps = bps;
	}
}

void CriticalFlows::on_answer(std::uint64_t id, SchedulingHeader &header)
{
	if (header.paused_by && header.paused_by != this)
		return forget(id);
	auto flow = find(id);

	if (flow == flows_.end())
		return;
	if (!header.paused_by)
		flow->bps = std::min(flow->bps, header.bps);
	header.probing_trips =
		std::max(header.probing_trips, PROBING_TRIPS * static_cast<double>(flow - flows_.begin()));
}

void CriticalFlows::forget(std::uint64_t id)
{
	std::erase_if(flows_, [id](const ListedFlow &flow) { return flow.id == id; });
}

std::vector<CriticalFlows::ListedFlow>::iterator CriticalFlows::find(std::uint64_t id)
{
	return std::find_if(flows_.begin(), flows_.end(), [id](const ListedFlow &flow) { return flow.id == id; });
}

// The capacity shrinks so that what waits is sent in two round trips (section 3.3.3).
void CriticalFlows::control_rate(Time now, double link_bps, double backlog_bits)
{
	Time sum = 0;

	if (now < controls_at_)
		return;
	for (const ListedFlow &flow : flows_)
		sum += flow.round_trip;
	const Time period = flows_.empty() ? 0 : CONTROL_TRIPS * sum / static_cast<Time>(flows_.size());
	const double drain_bps = period ? backlog_bits * SECOND / static_cast<double>(period) : 0;

	bps_ = std::max(link_bps - drain_bps, 0.0);
	controls_at_ = now + period;
}

// The place of the flow in the list; the length of the list if it has none.
std::size_t CriticalFlows::list(const SchedulingHeader &header, std::uint64_t id)
{
	ListedFlow flow = {id, header.deadline, header.left, header.round_trip, 0, header.paused_by == this};

	if (auto known = find(id); known != flows_.end()) {
		flow.bps = known->bps;
		flow.is_paused = known->is_paused;
		flows_.erase(known);
	}
	const auto place =
		static_cast<std::size_t>(std::lower_bound(flows_.begin(), flows_.end(), flow) - flows_.begin());

	flows_.insert(flows_.begin() + static_cast<std::ptrdiff_t>(place), flow);
	auto sending = static_cast<std::size_t>(
		std::count_if(flows_.begin(), flows_.end(), [](const ListedFlow &each) { return each.bps > 0; }));

	if (flows_.size() > LISTED_FOR_EACH * std::max<std::size_t>(sending, 1))
		flows_.resize(LISTED_FOR_EACH * std::max<std::size_t>(sending, 1));
	return std::min(place, flows_.size());
}

// What the flows before this one leave (algorithm 2). Some that will soon be over count as gone (Early Start).
double CriticalFlows::available(std::size_t place) const
{
	double taken_bps = 0, trips = 0;

	for (std::size_t i = 0; i < place; i++) {
		const double left = flows_[i].trips_left();

		if (left < EARLY_START_TRIPS && trips < EARLY_START_TRIPS)
			trips += left;
		else
			taken_bps += flows_[i].bps;
	}
	return bps_ - taken_bps;
}

} // namespace sluice
