// A pool of objects that are reused: requests, commands and operations that come and go by the million.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace twin {

// Each object has a number, its slot, which is small and goes into an event or a token. An object stays where it is in
// memory as long as the pool lives, so references to it stay valid while other slots are taken. The slot released last
// is taken first. Memory grows to the largest number of slots that were in use at once, and is never given back.
template <class T>
class SlotPool {
 public:
  // Takes a free slot, puts `value` into it, and returns its number.
  std::uint32_t take(T value) {
    const std::uint32_t slot = take_as_left();
    (*this)[slot] = std::move(value);
    return slot;
  }

  // The same, but the object is as its last user left it: for objects that own memory worth keeping.
  std::uint32_t take_as_left() {
    if (free_.empty()) grow();
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }

  // The slot may be taken again. Its object keeps its value until then.
  void release(std::uint32_t slot) { free_.push_back(slot); }

  T& operator[](std::size_t slot) { return chunks_[slot / kChunk][slot % kChunk]; }
  const T& operator[](std::size_t slot) const { return chunks_[slot / kChunk][slot % kChunk]; }

  // How many slots are taken.
  [[nodiscard]] std::size_t in_use() const { return chunks_.size() * kChunk - free_.size(); }

 private:
  static constexpr std::size_t kChunk = 64;

  void grow() {
    const std::size_t first = chunks_.size() * kChunk;
    chunks_.push_back(std::make_unique<T[]>(kChunk));
    // the slot with the least number is taken first
    for (std::size_t slot = first + kChunk; slot > first; --slot) free_.push_back(static_cast<std::uint32_t>(slot - 1));
  }

  std::vector<std::unique_ptr<T[]>> chunks_;
  std::vector<std::uint32_t> free_;
};

}  // namespace twin
