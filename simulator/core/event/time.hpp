// SPDX-License-Identifier: Apache-2.0
// The simulator's clock: whole picoseconds. At 100 Gb/s a byte takes 80 of them; 64 bits hold 106 days.
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

// How long a link of `bps` takes for a frame, rounded up. Frames up to 1 MB.
constexpr Time serialisation(std::uint64_t frame_bytes, std::uint64_t bps)
{
	return static_cast<Time>((frame_bytes * 8 * SECOND + bps - 1) / bps);
}

// Serialisation times of one link: at nearly all rates a byte takes whole picoseconds.
class Line
{
      public:
	explicit Line(std::uint64_t bps) : bps_(bps), of_byte_(8 * SECOND % bps ? 0 : 8 * SECOND / bps)
	{
	}

	Time time_of(std::uint32_t frame_bytes) const
	{
		return of_byte_ ? static_cast<Time>(frame_bytes * of_byte_) : serialisation(frame_bytes, bps_);
	}

	std::uint64_t bps() const
	{
		return bps_;
	}

      private:
	std::uint64_t bps_;
	std::uint64_t of_byte_; // 0: no whole number
};

} // namespace sluice
