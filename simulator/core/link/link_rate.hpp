// SPDX-License-Identifier: Apache-2.0
// The time that a frame takes on a link of a given rate.
#pragma once

#include <cstdint>

#include "event/time.hpp"

namespace sluice
{

// Rounded up to a picosecond. `Product`: 64 bits are enough for frames up to 1 MB.
template <class Product = std::uint64_t> constexpr Time serialisation(std::uint64_t frame_bytes, std::uint64_t bps)
{
	return static_cast<Time>((static_cast<Product>(frame_bytes) * 8 * SECOND + bps - 1) / bps);
}

// The rate of one link. At nearly all rates a byte takes whole picoseconds, so that a product
// replaces the division.
class LinkRate
{
      public:
	explicit LinkRate(std::uint64_t bps) : bps_(bps), byte_ps_(8 * SECOND % bps ? 0 : 8 * SECOND / bps)
	{
	}

	Time time_of(std::uint32_t frame_bytes) const
	{
		return byte_ps_ ? static_cast<Time>(frame_bytes * byte_ps_) : serialisation(frame_bytes, bps_);
	}

      private:
	std::uint64_t bps_;
	std::uint64_t byte_ps_; // 0: a byte does not take whole picoseconds
};

} // namespace sluice
