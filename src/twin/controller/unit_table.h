// A set of logical units with a small number each: which units lie in a buffer, and in what state.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/lazy_array.h"

namespace twin {

// A hash table with open addressing and linear probing. It holds at most `capacity` units, takes memory as it fills,
// and never grows beyond that.
class UnitTable {
 public:
  explicit UnitTable(std::size_t capacity) : mask_(std::bit_ceil(2 * capacity + 2) - 1), slots_(mask_ + 1) {}

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] bool full() const { return 2 * size_ >= mask_; }

  // The number kept for `unit`, nullptr when it is not in the table. Valid until the next insert() or erase().
  [[nodiscard]] std::uint32_t* find(std::uint64_t unit) {
    for (std::size_t index = home(unit);; index = (index + 1) & mask_) {
      Slot& slot = slots_[index];
      if (slot.key == 0) return nullptr;
      if (slot.key == unit + 1) return &slot.value;
    }
  }

  // `unit` must not be in the table.
  void insert(std::uint64_t unit, std::uint32_t value) {
    std::size_t index = home(unit);
    while (slots_[index].key != 0) index = (index + 1) & mask_;
    slots_[index] = {unit + 1, value};
    ++size_;
  }

  // `unit` must be in the table.
  void erase(std::uint64_t unit) {
    std::size_t hole = home(unit);
    while (slots_[hole].key != unit + 1) hole = (hole + 1) & mask_;
    // Entries behind the hole move into it unless that would put them before their home slot: no probe may end at a
    // free slot before it has reached its entry.
    for (std::size_t index = (hole + 1) & mask_; slots_[index].key != 0; index = (index + 1) & mask_) {
      const std::size_t distance = (index - home(slots_[index].key - 1)) & mask_;
      if (distance >= ((index - hole) & mask_)) {
        slots_[hole] = slots_[index];
        hole = index;
      }
    }
    slots_[hole].key = 0;
    --size_;
  }

 private:
  struct Slot {
    std::uint64_t key;  // unit + 1; 0 is free
    std::uint32_t value;
  };

  [[nodiscard]] std::size_t home(std::uint64_t unit) const {
    return static_cast<std::size_t>((unit * 0x9E3779B97F4A7C15ULL) >> 20) & mask_;
  }

  std::size_t mask_;
  LazyArray<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace twin
