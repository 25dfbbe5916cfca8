// A pool of reusable objects. A run creates millions of requests, commands and operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace twin {

// Each object has a small number, its slot, which fits into an event or a token. Objects never move while the pool
// lives, so references to them stay valid. The slot released last is taken first. The pool grows to the largest number
// of slots in use at once, and never shrinks.
template <class T>
class SlotPool {
 public:
  // Stores `value` in a free slot, and returns the number of the slot.
  std::uint32_t take(T value) {
    if (free_.empty()) {
      objects_.push_back(std::move(value));
      return static_cast<std::uint32_t>(objects_.size() - 1);
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    objects_[slot] = std::move(value);
    return slot;
  }

  // Makes the slot free. Its object keeps its value until the slot is taken again.
  void release(std::uint32_t slot) { free_.push_back(slot); }

  T& operator[](std::size_t slot) { return objects_[slot]; }
  const T& operator[](std::size_t slot) const { return objects_[slot]; }

  // Returns the number of slots that are taken.
  [[nodiscard]] std::size_t in_use() const { return objects_.size() - free_.size(); }

 private:
  std::deque<T> objects_;  // a deque does not move its elements when it grows
  std::vector<std::uint32_t> free_;
};

}  // namespace twin
