// Data that were read and stay in the drive's memory: which units, least recently used first out.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/lazy_array.h"

namespace twin {

// A set-associative cache, as a small processor can manage it: a unit may lie in any of the kWays ways of its set.
class ReadCache {
 public:
  ReadCache(std::uint64_t size_bytes, std::uint64_t unit_bytes, bool enabled) {
    const std::uint64_t sets = enabled ? size_bytes / unit_bytes / kWays : 0;
    if (sets == 0) return;
    sets_ = std::bit_floor(sets);
    tags_ = LazyArray<std::uint64_t>(sets_ * kWays);
  }

  // Whether anything can be kept.
  [[nodiscard]] bool enabled() const { return sets_ > 0; }

  // Whether the unit is there; if so, it is now the most recently used of its set.
  bool hit(std::uint64_t unit) {
    if (sets_ == 0) return false;
    std::uint64_t* set = set_of(unit);
    for (std::size_t way = 0; way < kWays; ++way) {
      if (set[way] == unit + 1) {
        to_front(set, way, unit);
        return true;
      }
    }
    return false;
  }

  void insert(std::uint64_t unit) {
    if (sets_ == 0) return;
    std::uint64_t* set = set_of(unit);
    std::size_t way = 0;
    while (way + 1 < kWays && set[way] != unit + 1 && set[way] != 0) ++way;
    to_front(set, way, unit);
  }

  // The host wrote or discarded the units from `first` to before `end`: what was read is out of date.
  void drop_all(std::uint64_t first, std::uint64_t end) {
    if (end - first < tags_.size()) {
      for (std::uint64_t unit = first; unit < end && sets_ != 0; ++unit) {
        std::uint64_t* set = set_of(unit);
        for (std::size_t way = 0; way < kWays; ++way) {
          if (set[way] == unit + 1) remove(set, way);
        }
      }
      return;
    }
    for (std::size_t index = 0; index < tags_.size(); ++index) {
      const std::size_t way = kWays - 1 - index % kWays;  // backwards, since removing moves the later ones up
      std::uint64_t* set = &tags_[index / kWays * kWays];
      if (set[way] > first && set[way] <= end) remove(set, way);
    }
  }

 private:
  static constexpr std::size_t kWays = 8;

  std::uint64_t* set_of(std::uint64_t unit) {
    const std::uint64_t mixed = (unit * 0x9E3779B97F4A7C15ULL) >> 24;
    return &tags_[(mixed & (sets_ - 1)) * kWays];
  }

  static void to_front(std::uint64_t* set, std::size_t way, std::uint64_t unit) {
    for (; way > 0; --way) set[way] = set[way - 1];
    set[0] = unit + 1;
  }

  static void remove(std::uint64_t* set, std::size_t way) {
    for (; way + 1 < kWays; ++way) set[way] = set[way + 1];
    set[kWays - 1] = 0;
  }

  std::uint64_t sets_ = 0;
  LazyArray<std::uint64_t> tags_;  // unit + 1, the most recently used of a set first
};

}  // namespace twin
