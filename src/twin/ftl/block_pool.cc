// Lists of full blocks by valid units, queues of free blocks by die.
#include "ftl/block_pool.h"

#include <algorithm>

namespace twin {

BlockPool::BlockPool(const BlockShape& shape, const InitialLayout& initial)
    : shape_(shape), blocks_(shape.blocks), full_(shape.block_units() + 1UL), free_(shape.dies) {
  for (std::uint32_t block = 0; block < shape.blocks; ++block) {
    if (block < initial.used_blocks()) {
      blocks_[block].valid = initial.valid_units(block);
      blocks_[block].initial = true;
      link(block);
    } else {
      free_[shape.die_of(block)].push_back(block);
      ++free_count_;
    }
  }
}

std::uint32_t BlockPool::take(std::uint32_t die) {
  if (free_count_ == 0) return kNoBlock;
  while (free_[die].empty()) die = (die + 1) % shape_.dies;
  const std::uint32_t block = free_[die].front();
  free_[die].pop_front();
  --free_count_;
  blocks_[block].state = State::kOpen;
  return block;
}

std::uint32_t BlockPool::fewest_valid() {
  while (fewest_ < full_.size() && full_[fewest_].first == kNoBlock) ++fewest_;
  return fewest_;
}

std::uint32_t BlockPool::take_victim() {
  if (fewest_valid() == full_.size()) return kNoBlock;
  const std::uint32_t block = full_[fewest_].first;
  unlink(block);
  blocks_[block].state = State::kOpen;
  return block;
}

void BlockPool::erased(std::uint32_t block) {
  blocks_[block].valid = 0;
  blocks_[block].initial = false;
  blocks_[block].state = State::kFree;
  ++blocks_[block].erases;
  free_[shape_.die_of(block)].push_back(block);
  ++free_count_;
}

void BlockPool::remove_valid(std::uint32_t block) {
  if (blocks_[block].state != State::kFull) {
    --blocks_[block].valid;
    return;
  }
  unlink(block);
  --blocks_[block].valid;
  link(block);
}

void BlockPool::link(std::uint32_t block) {
  Block& each = blocks_[block];
  each.state = State::kFull;
  List& list = full_[each.valid];
  each.previous = list.last;
  each.next = kNoBlock;
  (list.last == kNoBlock ? list.first : blocks_[list.last].next) = block;
  list.last = block;
  fewest_ = std::min(fewest_, each.valid);
}

void BlockPool::unlink(std::uint32_t block) {
  const Block& each = blocks_[block];
  List& list = full_[each.valid];
  (each.previous == kNoBlock ? list.first : blocks_[each.previous].next) = each.next;
  (each.next == kNoBlock ? list.last : blocks_[each.next].previous) = each.previous;
}

}  // namespace twin
