// Units of the model: integer nanoseconds and bytes. Time is never a floating-point number, so results are the same on
// every machine.
#pragma once

#include <cstdint>
#include <limits>

namespace twin {

using Nanoseconds = std::int64_t;
inline constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();
inline constexpr Nanoseconds kMicrosecond = 1'000;
inline constexpr Nanoseconds kMillisecond = 1'000'000;
inline constexpr Nanoseconds kSecond = 1'000'000'000;

// The smallest amount of data that a host can address.
inline constexpr std::uint64_t kSectorBytes = 512;

// Returns the time for `size_bytes` at `bytes_per_second`, rounded up to the next nanosecond. `size_bytes` must be less
// than 2^34, so that its product with 10^9 fits into 64 bits.
constexpr Nanoseconds transfer_ns(std::uint64_t size_bytes, std::int64_t bytes_per_second) {
  const auto rate = static_cast<std::uint64_t>(bytes_per_second);
  return static_cast<Nanoseconds>((size_bytes * 1'000'000'000ULL + rate - 1) / rate);
}

}  // namespace twin
