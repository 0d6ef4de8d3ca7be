// SPDX-License-Identifier: Apache-2.0
#include "port/flow_queues.hpp"

namespace sluice
{

// The law takes the two directions of a connection for two flows.
void FlowQueues::push(Packet *packet, Time now)
{
	sl_u64 flow = packet->flow->id << 1 | (packet->kind == PacketKind::Ack || packet->kind == PacketKind::SynAck);

	queues_[sl_dqs_enqueue(&law_, &settings_, flow, static_cast<sl_u64>(now / NANOSECOND))].push(packet);
	waiting_++;
}

} // namespace sluice
