// SPDX-License-Identifier: Apache-2.0
// The simulator's clock: whole picoseconds in 64 bits, which hold 106 days. At 100 Gb/s a byte
// takes 80 ps.
#pragma once

#include <cstdint>

namespace sluice
{

using Time = std::int64_t;

constexpr Time PICOSECOND = 1;
constexpr Time NANOSECOND = 1000 * PICOSECOND;
constexpr Time MICROSECOND = 1000 * NANOSECOND;
constexpr Time MILLISECOND = 1000 * MICROSECOND;
constexpr Time SECOND = 1000 * MILLISECOND;
constexpr Time NEVER = INT64_MAX;

} // namespace sluice
