// Numbers that look random but are computed from their input alone.
#pragma once

#include <cstdint>

namespace twin {

// The increment of splitmix64 between two numbers: 2^64 divided by the golden ratio.
inline constexpr std::uint64_t kGoldenRatio = 0x9E3779B97F4A7C15ULL;

// The finalizer of splitmix64 (G. Steele, D. Lea, C. Flood, Fast splittable pseudorandom number generators, OOPSLA
// 2014): every bit of `x` affects all bits of the result.
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace twin
