// A table from logical units to small numbers, for example from the units in a buffer to their states.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/lazy_array.h"
#include "core/random.h"

namespace twin {

// A hash table with open addressing and linear probing. It holds at most `capacity` units. Memory is allocated as the
// table fills.
class UnitTable {
 public:
  explicit UnitTable(std::size_t capacity) : mask_(std::bit_ceil(2 * capacity + 2) - 1), slots_(mask_ + 1) {}

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] bool full() const { return 2 * size_ >= mask_; }

  // Returns the number of a unit; nullptr if the unit is not in the table. Valid until the next insert() or erase().
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
    // An entry after the hole moves into it, unless that would put the entry before its home slot. Otherwise a search
    // for the entry would end at the free slot.
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
    std::uint64_t key;  // unit + 1; 0: the slot is free
    std::uint32_t value;
  };

  [[nodiscard]] std::size_t home(std::uint64_t unit) const {
    return static_cast<std::size_t>((unit * kGoldenRatio) >> 20) & mask_;
  }

  std::size_t mask_;
  LazyArray<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace twin
