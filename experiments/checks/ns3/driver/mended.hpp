// SPDX-License-Identifier: Apache-2.0
// Corrects two mistakes of ns-3.44 in its reaction to a loss. The comparison is made with and
// without the corrections.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "ns3/internet-module.h"

// Proportional rate reduction (RFC 6937, section 3). TcpPrrRecovery counts the bytes that a
// duplicate acknowledgement selectively acknowledges twice. So windows shrink half as fast, and
// retransmissions meet a full buffer. It also multiplies windows in 32 bits, which overflow above
// about 45 packets. Later releases have corrected both.
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

// A lost packet halves the window (RFC 8257, section 3.5). TcpDctcp reduces it only as far as for
// a mark.
class HalvingDctcp : public ns3::TcpDctcp
{
      public:
	static ns3::TypeId GetTypeId()
	{
		static ns3::TypeId type =
			ns3::TypeId("sluice::HalvingDctcp").SetParent<ns3::TcpDctcp>().AddConstructor<HalvingDctcp>();
		return type;
	}

	// In recovery, ns-3 sets the state before it calls this function. For marks it calls this
	// function first.
	std::uint32_t GetSsThresh(ns3::Ptr<const ns3::TcpSocketState> state, std::uint32_t in_flight) override
	{
		if (state->m_congState != ns3::TcpSocketState::CA_RECOVERY)
			return TcpDctcp::GetSsThresh(state, in_flight);
		return std::max(state->m_cWnd.Get() / 2, 2 * state->m_segmentSize);
	}

	ns3::Ptr<ns3::TcpCongestionOps> Fork() override
	{
		return ns3::CopyObject<HalvingDctcp>(this);
	}
};
