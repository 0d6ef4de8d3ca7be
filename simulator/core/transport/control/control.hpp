// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "laws/controls.gen.h"

namespace sluice
{

// Has the names of the records in policy/controls.py, and `file`: a control from a file (laws/hooks.h).
// transport/policies.cpp says what each control is composed of.
#define SLUICE_ENUMERATOR(name) name,
enum class Control : std::uint8_t { SL_CONTROLS(SLUICE_ENUMERATOR) file };
#undef SLUICE_ENUMERATOR

// How a receiver echoes marks: not at all, until the sender has reduced its window (RFC 3168), or
// the mark of each packet (RFC 8257).
enum class Echo : std::uint8_t { None, Standard, Exact };

} // namespace sluice
