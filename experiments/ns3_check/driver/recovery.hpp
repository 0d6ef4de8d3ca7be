// SPDX-License-Identifier: Apache-2.0
// Proportional rate reduction (RFC 6937, section 3), which ns-3.44's TcpPrrRecovery strays from: it counts what a duplicate
// acknowledgement selectively acknowledges twice, so that windows shrink half as fast and retransmissions meet a full buffer,
// and multiplies windows in 32 bits, which does for those above some 45 packets. Later releases have mended both.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "ns3/internet-module.h"

class ExactReduction : public ns3::TcpRecoveryOps
{
      public:
	static ns3::TypeId GetTypeId()
	{
		static ns3::TypeId type = ns3::TypeId("sluice::ExactReduction")
						  .SetParent<ns3::TcpRecoveryOps>()
						  .AddConstructor<ExactReduction>();
		return type;
	}

	std::string GetName() const override
	{
		return "ExactReduction";
	}

	void EnterRecovery(ns3::Ptr<ns3::TcpSocketState> state, std::uint32_t, std::uint32_t,
			   std::uint32_t delivered) override
	{
		before_ = state->m_cWnd;
		delivered_ = 0;
		sent_ = 0;
		DoRecovery(state, delivered, false);
	}

	void DoRecovery(ns3::Ptr<ns3::TcpSocketState> state, std::uint32_t delivered, bool) override
	{
		std::int64_t in_flight = state->m_bytesInFlight, target = state->m_ssThresh,
			     segment = state->m_segmentSize;
		std::int64_t may_send;

		delivered_ += delivered;
		if (in_flight > target)
			may_send = (delivered_ * target + before_ - 1) / before_ - sent_;
		else
			may_send = std::min(target - in_flight,
					    std::max<std::int64_t>(delivered_ - sent_, delivered) + segment);
		may_send = std::max(may_send, sent_ ? 0 : segment);
		state->m_cWnd = static_cast<std::uint32_t>(in_flight + may_send);
		state->m_cWndInfl = state->m_cWnd;
	}

	void ExitRecovery(ns3::Ptr<ns3::TcpSocketState> state) override
	{
		state->m_cWndInfl = state->m_cWnd;
	}

	void UpdateBytesSent(std::uint32_t bytes) override
	{
		sent_ += bytes;
	}

	ns3::Ptr<ns3::TcpRecoveryOps> Fork() override
	{
		return ns3::CopyObject<ExactReduction>(this);
	}

      private:
	std::int64_t before_ = 1; // bytes: the window when the reduction began
	std::int64_t delivered_ = 0;
	std::int64_t sent_ = 0;
};
