// Numbers that look random but are computed from their input alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
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

// Returns the number below which 64 random bits lie with probability `share`.
inline std::uint64_t threshold(double share) {
  return share >= 1 ? ~0ULL : static_cast<std::uint64_t>(std::ldexp(std::max(share, 0.0), 64));
}

// The generator splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() { return mix(state_ += kGoldenRatio); }

  // Returns a number from 0 to before `count`.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(next() % count); }

 private:
  std::uint64_t state_;
};

}  // namespace twin
