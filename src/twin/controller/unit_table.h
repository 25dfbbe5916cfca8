// A set of logical units with a small number each: which units lie in a buffer, and in what state.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/lazy_array.h"

namespace twin {

// Open addressing with linear probing. Holds at most `capacity` units; takes its memory as it fills and none
// afterwards.
class UnitTable {
 public:
  explicit UnitTable(std::size_t capacity) : mask_(std::bit_ceil(2 * capacity + 2) - 1), slots_(mask_ + 1) {}

  [[nodiscard]] bool empty() const { return size_ == 0; }

  // The number kept for `unit`, nullptr when it is not in the table. Valid until the next insert() or erase().
  [[nodiscard]] std::uint32_t* find(std::uint64_t unit) {
    for (std::size_t place = home(unit);; place = (place + 1) & mask_) {
      Slot& slot = slots_[place];
      if (slot.key == 0) return nullptr;
      if (slot.key == unit + 1) return &slot.value;
    }
  }

  // `unit` must not be in the table.
  void insert(std::uint64_t unit, std::uint32_t value) {
    std::size_t place = home(unit);
    while (slots_[place].key != 0) place = (place + 1) & mask_;
    slots_[place] = {unit + 1, value};
    ++size_;
  }

  // `unit` must be in the table.
  void erase(std::uint64_t unit) {
    std::size_t hole = home(unit);
    while (slots_[hole].key != unit + 1) hole = (hole + 1) & mask_;
    // what follows moves up as far as its own home allows, so that no probe ends early
    for (std::size_t place = (hole + 1) & mask_; slots_[place].key != 0; place = (place + 1) & mask_) {
      const std::size_t distance = (place - home(slots_[place].key - 1)) & mask_;
      if (distance >= ((place - hole) & mask_)) {
        slots_[hole] = slots_[place];
        hole = place;
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
