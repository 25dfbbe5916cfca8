// The part of the map that is in memory if not all of it fits: on-demand mapping as in DFTL (A. Gupta, Y. Kim and
// B. Urgaonkar, ASPLOS 2009).
#pragma once

#include <cstdint>
#include <vector>

#include "core/lazy_array.h"

namespace twin {

// A row holds one map entry. A miss reads the page of the map that contains the entry from flash. With batch fetch, the
// other entries of the page are loaded too, as the coldest rows. The least recently used row is evicted. If it is
// dirty, all dirty rows of its page are written back and are clean afterwards.
class MappingCache {
 public:
  // With 0 rows the complete map is in memory, and every lookup is a hit.
  MappingCache(std::uint32_t rows, std::uint32_t units, std::uint32_t page_entries, bool batch_fetch);

  struct Lookup {
    bool hit = true;
    std::uint32_t pages_written = 0;  // dirty pages of the map that were written to make room
  };

  // Looks up the entry of a unit, and loads it if it is not in memory. `change` marks it as dirty.
  Lookup look_up(std::uint32_t unit, bool change);

  [[nodiscard]] bool covers_all() const { return rows_.empty(); }
  [[nodiscard]] std::uint32_t page_of(std::uint32_t unit) const { return unit / page_entries_; }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  struct Row {
    std::uint32_t unit = kNone;
    std::uint32_t colder = kNone, hotter = kNone;
    bool dirty = false;
  };

  std::uint32_t evict();
  void load(std::uint32_t unit, bool hot);
  void unlink(std::uint32_t row);
  void link(std::uint32_t row, bool hot);

  std::uint32_t units_;
  std::uint32_t page_entries_;
  bool batch_fetch_;
  std::vector<Row> rows_;
  LazyArray<std::uint32_t> row_of_;  // by unit: index in rows_ + 1; 0 if the entry is not in memory
  std::vector<std::uint32_t> free_;  // not a SlotPool, because a SlotPool grows when no slot is free
  std::uint32_t coldest_ = kNone, hottest_ = kNone;
  std::vector<std::uint32_t> missing_;  // scratch space of look_up()
};

}  // namespace twin
