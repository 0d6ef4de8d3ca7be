// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "fabric/network.hpp"
#include "fabric/part.hpp"

namespace sluice
{

// Does at the end of a window what concerns several parts: results of flows that are complete, by
// time; packets that were dropped; flows to remove.
void settle(Network &network, const std::vector<std::unique_ptr<Part>> &parts);

} // namespace sluice
