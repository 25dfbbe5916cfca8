// The rows form a list in the order of their last use, from the coldest to the hottest.
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
    if (free_.empty()) result.pages_written += make_room();
    fill(free_.back(), unit, true);
    if (batch_fetch_) {
      // Brings in as many neighbours as fit beside the wanted entry, those that follow it first. Colder rows make room.
      const std::uint32_t begin = page_of(unit) * page_entries_;
      const std::uint32_t end = std::min(begin + page_entries_, units_);
      std::uint32_t room = static_cast<std::uint32_t>(rows_.size()) - 1;
      wanted_.clear();
      for (std::uint32_t i = 1; i < end - begin && room > 0; ++i) {
        const std::uint32_t neighbour = begin + (unit - begin + i) % (end - begin);
        if (row_of_[neighbour] != 0) continue;
        wanted_.push_back(neighbour);
        --room;
      }
      while (free_.size() < wanted_.size()) result.pages_written += make_room();
      // the last one in is the coldest
      for (const std::uint32_t neighbour : wanted_) fill(free_.back(), neighbour, false);
    }
  }
  const std::uint32_t row = row_of_[unit] - 1;
  if (hottest_ != row) {
    remove(row);
    insert(row, true);
  }
  rows_[row].dirty |= change;
  return result;
}

// Frees the coldest row; returns how many pages of the map had to be written for that.
std::uint32_t MappingCache::make_room() {
  const std::uint32_t row = coldest_;
  const std::uint32_t unit = rows_[row].unit;
  std::uint32_t written = 0;
  if (rows_[row].dirty) {
    written = 1;
    const std::uint32_t begin = page_of(unit) * page_entries_;
    for (std::uint32_t each = begin; each < std::min(begin + page_entries_, units_); ++each) {
      if (row_of_[each] != 0) rows_[row_of_[each] - 1].dirty = false;
    }
  }
  remove(row);
  row_of_[unit] = 0;
  free_.push_back(row);
  return written;
}

void MappingCache::fill(std::uint32_t row, std::uint32_t unit, bool hot) {
  free_.pop_back();
  rows_[row].unit = unit;
  rows_[row].dirty = false;
  row_of_[unit] = row + 1;
  insert(row, hot);
}

void MappingCache::remove(std::uint32_t row) {
  const Row& each = rows_[row];
  (each.colder == kNone ? coldest_ : rows_[each.colder].hotter) = each.hotter;
  (each.hotter == kNone ? hottest_ : rows_[each.hotter].colder) = each.colder;
}

void MappingCache::insert(std::uint32_t row, bool hot) {
  Row& each = rows_[row];
  each.colder = hot ? hottest_ : kNone;
  each.hotter = hot ? kNone : coldest_;
  (each.colder == kNone ? coldest_ : rows_[each.colder].hotter) = row;
  (each.hotter == kNone ? hottest_ : rows_[each.hotter].colder) = row;
}

}  // namespace twin
