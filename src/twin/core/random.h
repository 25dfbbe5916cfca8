// Numbers that look random and follow from their input alone.
#pragma once

#include <cstdint>

namespace twin {

// The finalizer of splitmix64 (G. Steele, D. Lea, C. Flood, Fast splittable pseudorandom number generators, OOPSLA
// 2014): spreads the bits of `x` over all of the result.
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace twin
