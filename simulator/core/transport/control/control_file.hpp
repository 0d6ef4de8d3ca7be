// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "laws/hooks.h"

namespace sluice
{

// The library stays loaded for as long as the pointer or a copy of it lives. Throws std::invalid_argument.
std::shared_ptr<void> load_library(const std::string &path);

// A congestion control that was compiled from one file (laws/hooks.h), and the values of its parameters. The library
// stays loaded for as long as a connection may call it.
class ControlFile
{
      public:
	// Throws std::invalid_argument if the library is no control of this version, or has other parameters.
	ControlFile(const std::string &library, std::vector<std::uint32_t> parameters);

	const sl_hooks &hooks() const
	{
		return *hooks_;
	}

	const sl_parameters *parameters() const
	{
		return reinterpret_cast<const sl_parameters *>(parameters_.data());
	}

	// Whether nothing but its hooks changes the window.
	bool owns_window() const
	{
		return hooks_->on_ack;
	}

      private:
	std::shared_ptr<void> library_;
	const sl_hooks *hooks_;
	std::vector<std::uint32_t> parameters_;
};

} // namespace sluice
