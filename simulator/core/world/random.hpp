// SPDX-License-Identifier: Apache-2.0
// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a small, fast generator with the same output on
// every machine.
#pragma once

#include <cstdint>

namespace sluice
{

class Random
{
      public:
	explicit Random(std::uint64_t seed) : state_(seed)
	{
	}

	std::uint64_t next()
	{
		std::uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;

		z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ULL;
		z = (z ^ z >> 27) * 0x94D049BB133111EBULL;
		return z ^ z >> 31;
	}

	std::uint32_t next32()
	{
		return static_cast<std::uint32_t>(next() >> 32);
	}

      private:
	std::uint64_t state_;
};

} // namespace sluice
