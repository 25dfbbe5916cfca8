// The blocks of a drive: which are free, which are full, how many units of each are valid, how often each was erased.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "ftl/layout.h"

namespace twin {

// Full blocks are kept in lists by the number of their valid units, so that the block with the fewest is found without
// searching.
class BlockPool {
 public:
  BlockPool(const BlockShape& shape, const InitialLayout& initial);

  [[nodiscard]] std::uint32_t free_blocks() const { return free_count_; }
  [[nodiscard]] std::uint32_t used_blocks() const { return shape_.blocks - free_count_; }

  // Takes a free block of the die, or of another where that has none; kNoBlock when there is none at all.
  std::uint32_t take(std::uint32_t die);

  // The block is full: from now on it may be collected.
  void close(std::uint32_t block) { link(block); }

  // How many valid units the full block that has the fewest has; more than a block has when none is full.
  std::uint32_t fewest_valid();

  // Takes out the full block with the fewest valid units, the one closed first among equals; kNoBlock without any. It
  // is the caller's until erased().
  std::uint32_t take_victim();

  // Its valid units have been moved and it has been erased: it is free.
  void erased(std::uint32_t block);

  void add_valid(std::uint32_t block) { ++blocks_[block].valid; }
  void remove_valid(std::uint32_t block);

  [[nodiscard]] std::uint32_t valid(std::uint32_t block) const { return blocks_[block].valid; }
  [[nodiscard]] std::uint32_t erase_count(std::uint32_t block) const { return blocks_[block].erases; }
  [[nodiscard]] bool is_free(std::uint32_t block) const { return blocks_[block].state == State::kFree; }
  // Whether the block still holds what it held when the drive was made.
  [[nodiscard]] bool is_initial(std::uint32_t block) const { return blocks_[block].initial; }

  static constexpr std::uint32_t kNoBlock = 0xFFFFFFFF;

 private:
  enum class State : std::uint8_t { kFree, kOpen, kFull };

  struct Block {
    std::uint32_t valid = 0;
    std::uint32_t erases = 0;
    std::uint32_t previous = kNoBlock, next = kNoBlock;  // among the full ones with as many valid units
    State state = State::kFree;
    bool initial = false;
  };

  struct List {
    std::uint32_t first = kNoBlock, last = kNoBlock;
  };

  void link(std::uint32_t block);
  void unlink(std::uint32_t block);

  BlockShape shape_;
  std::vector<Block> blocks_;
  std::vector<List> full_;                       // by number of valid units
  std::uint32_t fewest_ = 0;                     // no list before this one has a block
  std::vector<std::deque<std::uint32_t>> free_;  // by die, the one freed first is taken first
  std::uint32_t free_count_ = 0;
};

}  // namespace twin
