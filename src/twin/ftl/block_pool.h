// The blocks of a drive: which are free or full, the valid units in each, and how often each was erased.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "core/counters.h"
#include "ftl/layout.h"

namespace twin {

// Full blocks are kept in lists by die and number of valid units, so a block with few valid units is found without
// searching. Each list is in the order in which its blocks changed last.
class BlockPool {
 public:
  // `counters` must outlive the pool.
  BlockPool(const BlockShape& shape, const InitialLayout& initial, GcPolicy policy, std::uint32_t wear_spread,
            Counters& counters);

  [[nodiscard]] std::uint32_t free_blocks() const { return free_count_; }

  // Takes a free block of the die, or of another die if that has none. Returns kNoBlock if no die has one.
  std::uint32_t take(std::uint32_t die);

  // Marks a block as full. From now on it can be collected.
  void close(std::uint32_t block) { link(block); }

  // Takes the block to collect next. It comes from the die with the fewest free blocks among the dies that have a full
  // block with at least `least_garbage` invalid units; the policy chooses it among the full blocks of that die. Returns
  // kNoBlock if no die has such a block. The block belongs to the caller until erased().
  std::uint32_t take_victim(std::uint32_t least_garbage);

  // Marks a block as erased and free. Its valid units must have been moved.
  void erased(std::uint32_t block);

  void add_valid(std::uint32_t block) { ++blocks_[block].valid; }
  void remove_valid(std::uint32_t block);

  [[nodiscard]] std::uint32_t valid(std::uint32_t block) const { return blocks_[block].valid; }
  [[nodiscard]] std::uint32_t erase_count(std::uint32_t block) const { return blocks_[block].erases; }
  [[nodiscard]] bool is_free(std::uint32_t block) const { return blocks_[block].state == State::kFree; }

  static constexpr std::uint32_t kNoBlock = 0xFFFFFFFF;

 private:
  enum class State : std::uint8_t { kFree, kOpen, kFull };

  struct Block {
    std::int64_t last_change = 0;  // when a unit in it was invalidated last, measured in invalidations
    std::uint32_t valid = 0;
    std::uint32_t erases = 0;
    std::uint32_t previous = kNoBlock, next = kNoBlock;  // neighbours in the list of full blocks
    State state = State::kFree;
  };

  struct List {
    std::uint32_t first = kNoBlock, last = kNoBlock;
  };

  struct Die {
    std::vector<List> full;          // by number of valid units
    std::uint32_t fewest = 0;        // all lists before this one are empty
    std::deque<std::uint32_t> free;  // in order of erasure; the block erased first is taken first
    std::uint32_t victims = 0;       // victims since erase counts were last compared
  };

  void link(std::uint32_t block);
  void unlink(std::uint32_t block);
  std::uint32_t fewest_valid(Die& die) const;
  [[nodiscard]] std::uint32_t choose(Die& die) const;
  [[nodiscard]] std::uint32_t least_worn(std::uint32_t die) const;

  BlockShape shape_;
  GcPolicy policy_;
  std::uint32_t wear_spread_;
  Counters& counters_;
  std::vector<Block> blocks_;
  std::vector<Die> dies_;
  std::uint32_t last_die_ = 0;  // die of the last victim
  std::uint32_t free_count_ = 0;
  std::int64_t invalidations_ = 0;
};

}  // namespace twin
