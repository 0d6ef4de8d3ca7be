// SPDX-License-Identifier: Apache-2.0
#include "transport/pacing/ack_clocking.hpp"

#include "transport/connection.hpp"

namespace sluice
{

void AckClocking::release(Connection &connection)
{
	while (connection.window_is_open() && connection.has_to_send())
		connection.send_one();
}

} // namespace sluice
