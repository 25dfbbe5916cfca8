// The read cache: units that were read and stay in the drive's memory, replaced least recently used first.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/lazy_array.h"
#include "core/random.h"

namespace twin {

// A set-associative cache, which a small processor can manage: a unit can be in any of the kWays ways of its set.
class ReadCache {
 public:
  // Nothing is cached if `enabled` is false or `size_bytes` is less than one set.
  ReadCache(std::uint64_t size_bytes, std::uint64_t unit_bytes, bool enabled)
      : sets_(enabled ? std::bit_floor(size_bytes / unit_bytes / kWays) : 0), tags_(sets_ * kWays) {}

  // Returns whether anything can be cached.
  [[nodiscard]] bool enabled() const { return sets_ > 0; }

  // Returns whether a unit is cached. If so, it becomes the most recently used unit of its set.
  bool hit(std::uint64_t unit) {
    if (sets_ == 0) return false;
    std::uint64_t* set = set_of(unit);
    const std::size_t way = way_of(set, unit);
    if (way == kWays) return false;
    to_front(set, way, unit);
    return true;
  }

  void insert(std::uint64_t unit) {
    if (sets_ == 0) return;
    std::uint64_t* set = set_of(unit);
    std::size_t way = 0;
    while (way + 1 < kWays && set[way] != unit + 1 && set[way] != 0) ++way;
    to_front(set, way, unit);
  }

  // Removes all units from `first` to before `end`.
  void remove_range(std::uint64_t first, std::uint64_t end) {
    if (end - first < tags_.size()) {
      for (std::uint64_t unit = first; unit < end; ++unit) {
        std::uint64_t* set = set_of(unit);
        if (const std::size_t way = way_of(set, unit); way < kWays) remove(set, way);
      }
      return;
    }
    for (std::size_t index = 0; index < tags_.size(); ++index) {
      const std::size_t way = kWays - 1 - index % kWays;  // last way first, because removing moves later ways up
      std::uint64_t* set = &tags_[index / kWays * kWays];
      if (set[way] > first && set[way] <= end) remove(set, way);
    }
  }

 private:
  static constexpr std::size_t kWays = 8;

  std::uint64_t* set_of(std::uint64_t unit) { return &tags_[((unit * kGoldenRatio) >> 24 & (sets_ - 1)) * kWays]; }

  // Returns the way of a unit in its set; kWays if the unit is not there.
  static std::size_t way_of(const std::uint64_t* set, std::uint64_t unit) {
    return static_cast<std::size_t>(std::find(set, set + kWays, unit + 1) - set);
  }

  static void to_front(std::uint64_t* set, std::size_t way, std::uint64_t unit) {
    for (; way > 0; --way) set[way] = set[way - 1];
    set[0] = unit + 1;
  }

  static void remove(std::uint64_t* set, std::size_t way) {
    for (; way + 1 < kWays; ++way) set[way] = set[way + 1];
    set[kWays - 1] = 0;
  }

  std::uint64_t sets_;
  LazyArray<std::uint64_t> tags_;  // unit + 1; in each set the most recently used unit first
};

}  // namespace twin
