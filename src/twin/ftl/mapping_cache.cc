// The rows as a list in order of their last use, from the coldest to the hottest.
#include "ftl/mapping_cache.h"

#include <algorithm>

namespace twin {

MappingCache::MappingCache(std::uint32_t rows, std::uint32_t units, std::uint32_t page_entries, bool batch_fetch)
    : units_(units), page_entries_(page_entries), batch_fetch_(batch_fetch), rows_(rows) {
  if (rows == 0) return;
  row_of_ = LazyArray<std::uint32_t>(units);
  for (std::uint32_t row = rows; row > 0; --row) free_.push_back(row - 1);
}

MappingCache::Lookup MappingCache::look_up(std::uint32_t unit, bool change) {
  Lookup result;
  if (covers_all()) return result;
  if (row_of_[unit] == 0) {
    result.hit = false;
    if (free_.empty()) result.pages_written += evict();
    load(unit, true);
    if (batch_fetch_) {
      // Loads as many neighbours as fit beside the entry, following neighbours first. Colder rows are evicted.
      const std::uint32_t begin = page_of(unit) * page_entries_;
      const std::uint32_t end = std::min(begin + page_entries_, units_);
      missing_.clear();
      for (std::uint32_t i = 1; i < end - begin && missing_.size() + 1 < rows_.size(); ++i) {
        const std::uint32_t neighbour = begin + (unit - begin + i) % (end - begin);
        if (row_of_[neighbour] == 0) missing_.push_back(neighbour);
      }
      while (free_.size() < missing_.size()) result.pages_written += evict();
      for (const std::uint32_t neighbour : missing_) load(neighbour, false);  // the last one is the coldest
    }
  }
  const std::uint32_t row = row_of_[unit] - 1;
  if (hottest_ != row) {
    unlink(row);
    link(row, true);
  }
  rows_[row].dirty |= change;
  return result;
}

// Evicts the coldest row. Returns the number of pages of the map that had to be written: 0 or 1.
std::uint32_t MappingCache::evict() {
  const std::uint32_t row = coldest_;
  const std::uint32_t unit = rows_[row].unit;
  const bool dirty = rows_[row].dirty;
  if (dirty) {
    const std::uint32_t begin = page_of(unit) * page_entries_;
    for (std::uint32_t each = begin; each < std::min(begin + page_entries_, units_); ++each) {
      if (row_of_[each] != 0) rows_[row_of_[each] - 1].dirty = false;
    }
  }
  unlink(row);
  row_of_[unit] = 0;
  free_.push_back(row);
  return dirty ? 1 : 0;
}

// Loads the entry of a unit into a free row.
void MappingCache::load(std::uint32_t unit, bool hot) {
  const std::uint32_t row = free_.back();
  free_.pop_back();
  rows_[row].unit = unit;
  rows_[row].dirty = false;
  row_of_[unit] = row + 1;
  link(row, hot);
}

void MappingCache::unlink(std::uint32_t row) {
  const Row& each = rows_[row];
  (each.colder == kNone ? coldest_ : rows_[each.colder].hotter) = each.hotter;
  (each.hotter == kNone ? hottest_ : rows_[each.hotter].colder) = each.colder;
}

// Inserts a row at the hot or at the cold end.
void MappingCache::link(std::uint32_t row, bool hot) {
  Row& each = rows_[row];
  each.colder = hot ? hottest_ : kNone;
  each.hotter = hot ? kNone : coldest_;
  (each.colder == kNone ? coldest_ : rows_[each.colder].hotter) = row;
  (each.hotter == kNone ? hottest_ : rows_[each.hotter].colder) = row;
}

}  // namespace twin
