// SPDX-License-Identifier: Apache-2.0
// A port's list of PDQ's flows by itself, for tests/sim/test_pdq.py.
#include "port/critical_flows.hpp"

using namespace sluice;

extern "C" {

struct Exchange {
	double bps, probing_trips;
	Time deadline, left, round_trip;
	bool waits; // the port has paused the flow
};

CriticalFlows *critical_flows()
{
	return new CriticalFlows;
}

// A request, and its answer at once.
void ask(CriticalFlows *port, std::uint64_t id, Exchange *exchange, Time now, double link_bps, double backlog_bits)
{
	SchedulingHeader header;

	header.bps = exchange->bps;
	header.deadline = exchange->deadline;
	header.left = exchange->left;
	header.round_trip = exchange->round_trip;
	header.paused_by = exchange->waits ? port : nullptr;
	port->on_request(id, header, now, link_bps, backlog_bits);
	port->on_answer(id, header);
	*exchange = {header.bps,  header.probing_trips, header.deadline,
		     header.left, header.round_trip,	header.paused_by != nullptr};
}

void forget(CriticalFlows *port, std::uint64_t id)
{
	port->forget(id);
}

void close(CriticalFlows *port)
{
	delete port;
}
}
