// SPDX-License-Identifier: Apache-2.0
#include "port/flow_queues.hpp"

#include "transport/flow.hpp"

namespace sluice
{

// The two directions of a connection are two flows.
void FlowQueues::push(Packet *packet, Time now)
{
	sl_u64 flow =
		packet->flow->spec.id << 1 | (packet->kind == PacketKind::Ack || packet->kind == PacketKind::SynAck);

	queues_[sl_dqs_enqueue(&law_, &settings_, flow, static_cast<sl_u64>(now / NANOSECOND))].push(packet);
	waiting_++;
}

} // namespace sluice
