// The part of the map that is in memory, when not all of it fits: on-demand mapping, after DFTL (A. Gupta, Y. Kim and
// B. Urgaonkar, ASPLOS 2009).
#pragma once

#include <cstdint>
#include <vector>

#include "core/lazy_array.h"

namespace twin {

// A row holds one entry of the map. A miss reads the page of the map in flash that holds the entry; with batch fetch
// the page's other entries come too, at the cold end. The victim is the least recently used row; a dirty one is written
// back with all dirty rows of its page, which are clean then.
class MappingCache {
 public:
  // `rows` 0: the whole map is in memory, and every lookup is a hit.
  MappingCache(std::uint32_t rows, std::uint32_t units, std::uint32_t page_entries, bool batch_fetch);

  struct Lookup {
    bool hit = true;
    std::uint32_t pages_written = 0;  // dirty pages of the map that had to make room
  };

  // Looks an entry up, and brings it in if it is not there. `change` marks it dirty.
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

  std::uint32_t make_room();
  void fill(std::uint32_t row, std::uint32_t unit, bool hot);
  void remove(std::uint32_t row);
  void insert(std::uint32_t row, bool hot);

  std::uint32_t units_;
  std::uint32_t page_entries_;
  bool batch_fetch_;
  std::vector<Row> rows_;
  LazyArray<std::uint32_t> row_of_;  // by unit: index in rows_ + 1; 0 when it is not in memory
  // No core/slot_pool.h: that grows where nothing is free, and here a row must be freed then.
  std::vector<std::uint32_t> free_;
  std::uint32_t coldest_ = kNone, hottest_ = kNone;
  std::vector<std::uint32_t> wanted_;  // the neighbours that a miss brings in
};

}  // namespace twin
