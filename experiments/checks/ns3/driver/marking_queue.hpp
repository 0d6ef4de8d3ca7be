// SPDX-License-Identifier: Apache-2.0
// A port's queue with the simulator's rules: FIFO, and bounded in bytes. It marks a data packet
// that finds more than K bytes waiting. RedQueueDisc with MinTh = MaxTh = K is similar, with two
// differences. It counts neither the frame's own header nor the packet that the device holds, and
// it marks acknowledgements.
//
// The queue also makes frames as long as the simulator's: `header_bytes` and the payload. It adds
// padding, and IP at the other end removes the padding, as it does for Ethernet.
#pragma once

#include <cstdint>

#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

constexpr std::uint32_t LINK_HEADER_BYTES = 2; // PPP, which the device adds
constexpr std::uint32_t IP_HEADER_BYTES = 20;

struct QueueSettings {
	std::uint32_t header_bytes;
	std::uint64_t mark_bytes;
	std::uint64_t buffer_bytes;
};

class MarkingQueue : public ns3::QueueDisc
{
      public:
	static ns3::TypeId GetTypeId()
	{
		static ns3::TypeId type = ns3::TypeId("sluice::MarkingQueue")
						  .SetParent<ns3::QueueDisc>()
						  .AddConstructor<MarkingQueue>();
		return type;
	}

	void set(const QueueSettings &settings, ns3::Ptr<ns3::PointToPointNetDevice> device)
	{
		settings_ = settings;
		device_ = device;
	}

	// Counts whole frames, without the one on the link. The device holds one more.
	std::uint64_t backlog_bytes() const
	{
		return waiting_bytes_ + device_->GetQueue()->GetNBytes();
	}

	std::uint64_t sent() const
	{
		return sent_;
	}

	std::uint64_t marked() const
	{
		return marked_;
	}

	std::uint64_t dropped() const
	{
		return dropped_;
	}

      private:
	bool DoEnqueue(ns3::Ptr<ns3::QueueDiscItem> item) override
	{
		ns3::Ptr<const ns3::Packet> packet = item->GetPacket();
		std::uint64_t found = backlog_bytes(), frame_bytes = frame_size(*item);

		if (found + frame_bytes > settings_.buffer_bytes) {
			dropped_++;
			DropBeforeEnqueue(item, "buffer full");
			return false;
		}
		if (found > settings_.mark_bytes && packet->GetSize() > tcp_header_bytes(*packet))
			marked_ += Mark(item, "K");
		waiting_bytes_ += frame_bytes;
		return GetInternalQueue(0)->Enqueue(item);
	}

	// The padding is added this late because ns-3 assumes that an item keeps its size while it waits.
	ns3::Ptr<ns3::QueueDiscItem> DoDequeue() override
	{
		ns3::Ptr<ns3::QueueDiscItem> item = GetInternalQueue(0)->Dequeue();

		if (!item)
			return item;
		std::uint32_t frame_bytes = frame_size(*item);

		waiting_bytes_ -= frame_bytes;
		sent_++;
		item->GetPacket()->AddPaddingAtEnd(frame_bytes - item->GetSize() - LINK_HEADER_BYTES);
		return item;
	}

	bool CheckConfig() override
	{
		if (!GetNInternalQueues())
			AddInternalQueue(ns3::CreateObjectWithAttributes<ns3::DropTailQueue<ns3::QueueDiscItem>>(
				"MaxSize", ns3::StringValue("1000000p")));
		return true;
	}

	void InitializeParams() override
	{
	}

	// The header's length is in the thirteenth byte.
	static std::uint32_t tcp_header_bytes(const ns3::Packet &packet)
	{
		std::uint8_t start[13];

		packet.CopyData(start, sizeof start);
		return (start[12] >> 4) * 4U;
	}

	// At least as long as the simulator's. SYNs and selective acknowledgements may have more options
	// than it allows for.
	std::uint32_t frame_size(const ns3::QueueDiscItem &item) const
	{
		std::uint32_t headers = LINK_HEADER_BYTES + IP_HEADER_BYTES + tcp_header_bytes(*item.GetPacket());
		std::uint32_t lacks = headers < settings_.header_bytes ? settings_.header_bytes - headers : 0;

		return item.GetSize() + LINK_HEADER_BYTES + lacks;
	}

	QueueSettings settings_ = {};
	ns3::Ptr<ns3::PointToPointNetDevice> device_;
	std::uint64_t waiting_bytes_ = 0; // whole frames
	std::uint64_t sent_ = 0, marked_ = 0, dropped_ = 0;
};
