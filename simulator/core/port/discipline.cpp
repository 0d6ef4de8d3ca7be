// SPDX-License-Identifier: Apache-2.0
#include "port/discipline.hpp"

#include <functional>

#include "packet/packet_list.hpp"
#include "port/flow_queues.hpp"
#include "port/priorities.hpp"
#include "port/priority_schedulers.hpp"
#include "port/shortest_first.hpp"

namespace sluice
{

namespace
{

// Priorities behind the interface.
template <class Scheduler, class Queue> class PriorityQueueing final : public Queueing
{
      public:
	PriorityQueueing(const Scheduler &scheduler, const Queue &queue) : priorities_(scheduler, queue)
	{
	}

	void push(Packet *packet, Time now) override
	{
		priorities_.push(packet, now);
	}

	Packet *pop(Time now, unsigned paused) override
	{
		return priorities_.pop(now, paused);
	}

	bool empty() const override
	{
		return priorities_.empty();
	}

	void visit(const std::function<void(const Packet &)> &visit) const override
	{
		priorities_.visit(visit);
	}

      private:
	Priorities<Scheduler, Queue> priorities_;
};

template <class Scheduler>
std::unique_ptr<Queueing> priorities(const Discipline &discipline, const Scheduler &scheduler)
{
	if (discipline.flow_queues)
		return std::make_unique<PriorityQueueing<Scheduler, FlowQueues>>(scheduler,
										 FlowQueues(discipline.sub_queues));
	return std::make_unique<PriorityQueueing<Scheduler, PacketList>>(scheduler, PacketList());
}

} // namespace

std::unique_ptr<Queueing> make_queueing(const Discipline &discipline, std::uint64_t bps)
{
	switch (discipline.scheduler) {
	case Discipline::Scheduler::ShortestFirst:
		return std::make_unique<ShortestFirst>();
	case Discipline::Scheduler::Shares:
		return priorities(discipline, Shares(discipline.shares, bps, discipline.burst_bytes));
	case Discipline::Scheduler::Strict:
		break;
	}
	if (discipline.flow_queues)
		return priorities(discipline, Strict());
	return nullptr;
}

} // namespace sluice
