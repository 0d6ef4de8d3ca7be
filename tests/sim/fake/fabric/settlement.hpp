// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "fabric/part.hpp"

namespace sluice
{

void settle(Network &network, const std::vector<std::unique_ptr<Part>> &parts);

} // namespace sluice
