// SPDX-License-Identifier: Apache-2.0
// Two mistakes of ns-3.44 that decide what follows on a loss, mended; the comparison is made with and without.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "ns3/internet-module.h"

// Proportional rate reduction (RFC 6937, section 3). TcpPrrRecovery counts what a duplicate acknowledgement selectively acknowledges
// twice, so that windows shrink half as fast and retransmissions meet a full buffer; and it multiplies windows in 32 bits, which
// does for those above some 45 packets. Later releases have mended both.
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

// A lost packet halves the window (RFC 8257, section 3.5). TcpDctcp takes off what it would for a mark.
class HalvingDctcp : public ns3::TcpDctcp
{
      public:
	static ns3::TypeId GetTypeId()
	{
		static ns3::TypeId type =
			ns3::TypeId("sluice::HalvingDctcp").SetParent<ns3::TcpDctcp>().AddConstructor<HalvingDctcp>();
		return type;
	}

	// In recovery the state is set before this is asked; a reduction for marks asks first.
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
