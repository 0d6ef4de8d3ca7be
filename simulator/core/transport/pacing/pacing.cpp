// SPDX-License-Identifier: Apache-2.0
#include "transport/pacing/pacing.hpp"

#include "transport/connection.hpp"

namespace sluice
{

bool Pacing::lets_grow(const Connection &connection, bool limited) const
{
	return limited || connection.window().in_slow_start();
}

} // namespace sluice
