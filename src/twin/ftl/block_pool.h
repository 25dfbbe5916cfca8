// The blocks of a drive: which are free, which are full, how many units of each are valid, how often each was erased.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "ftl/layout.h"

namespace twin {

// Full blocks are kept in lists by die and by the number of their valid units, so that a block with few is found
// without searching. In a list the blocks stand in the order in which they changed last.
class BlockPool {
 public:
  BlockPool(const BlockShape& shape, const InitialLayout& initial, GcPolicy policy, std::uint32_t wear_spread);

  [[nodiscard]] std::uint32_t free_blocks() const { return free_count_; }

  // Takes a free block of the die, or of another where that has none; kNoBlock when there is none at all.
  std::uint32_t take(std::uint32_t die);

  // The block is full: from now on it may be collected.
  void close(std::uint32_t block) { link(block); }

  // Takes out the block that is to be collected next. It is of the die that has the fewest free blocks among those
  // where a block has `least_garbage` units that are not valid, and there the one that the policy chooses; kNoBlock
  // where no die has such a block. It belongs to the caller until erased().
  std::uint32_t take_victim(std::uint32_t least_garbage);

  // Its valid units have been moved and it has been erased: it is free.
  void erased(std::uint32_t block);

  void add_valid(std::uint32_t block) { ++blocks_[block].valid; }
  void remove_valid(std::uint32_t block);

  [[nodiscard]] std::uint32_t valid(std::uint32_t block) const { return blocks_[block].valid; }
  [[nodiscard]] std::uint32_t erase_count(std::uint32_t block) const { return blocks_[block].erases; }
  [[nodiscard]] bool is_free(std::uint32_t block) const { return blocks_[block].state == State::kFree; }
  // Whether the block still holds what it held when the drive was made.
  [[nodiscard]] bool is_initial(std::uint32_t block) const { return blocks_[block].initial; }
  // How many victims were taken for their wear and not for their garbage.
  [[nodiscard]] std::uint64_t wear_moves() const { return wear_moves_; }

  static constexpr std::uint32_t kNoBlock = 0xFFFFFFFF;

 private:
  enum class State : std::uint8_t { kFree, kOpen, kFull };

  struct Block {
    std::int64_t changed = 0;  // when a unit of it was invalidated last, counted in such events
    std::uint32_t valid = 0;
    std::uint32_t erases = 0;
    std::uint32_t previous = kNoBlock, next = kNoBlock;  // among the full ones of the die with as many valid units
    State state = State::kFree;
    bool initial = false;
  };

  struct List {
    std::uint32_t first = kNoBlock, last = kNoBlock;
  };

  struct Die {
    std::vector<List> full;          // by number of valid units
    std::uint32_t fewest = 0;        // no list before this one has a block
    std::deque<std::uint32_t> free;  // the one freed first is taken first
    std::uint32_t victims = 0;       // since the erase counts were compared last
  };

  void link(std::uint32_t block);
  void unlink(std::uint32_t block);
  std::uint32_t fewest_valid(Die& die) const;
  [[nodiscard]] std::uint32_t choose(Die& die) const;
  [[nodiscard]] std::uint32_t least_worn(std::uint32_t die) const;

  BlockShape shape_;
  GcPolicy policy_;
  std::uint32_t wear_spread_;
  std::vector<Block> blocks_;
  std::vector<Die> dies_;
  std::uint32_t last_die_ = 0;  // of the last victim
  std::uint32_t free_count_ = 0;
  std::int64_t changes_ = 0;
  std::uint64_t wear_moves_ = 0;
};

}  // namespace twin
