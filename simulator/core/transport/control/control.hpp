// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace sluice
{

// transport/policies.cpp says what each of them is composed of.
enum class Control : std::uint8_t { Dctcp, Ucp, D2tcp, Datcp, Mcp, Reno, Cubic, Pfabric, D3 };

// How a receiver echoes marks: not at all, until the sender has reduced its window (RFC 3168), or
// the mark of each packet (RFC 8257).
enum class Echo : std::uint8_t { None, Standard, Exact };

} // namespace sluice
