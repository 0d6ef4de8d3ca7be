// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transport/pacing/pacing.hpp"

namespace sluice
{

// TCP without a rate: an ACK releases as many packets as the window allows.
class AckClocking final : public Pacing
{
      public:
	void begin(Connection &connection) override
	{
		release(connection);
	}

	void release(Connection &connection) override;
};

} // namespace sluice
