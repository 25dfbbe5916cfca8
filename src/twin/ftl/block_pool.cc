// Lists of full blocks by die and number of valid units, and queues of free blocks by die.
#include "ftl/block_pool.h"

#include <algorithm>

namespace twin {
namespace {

// Number of victims of a die between two comparisons of erase counts. Because it limits how often static data are
// moved, wear levelling hardly increases write amplification.
constexpr std::uint32_t kVictimsBetweenWearMoves = 32;

}  // namespace

BlockPool::BlockPool(const BlockShape& shape, const InitialLayout& initial, GcPolicy policy, std::uint32_t wear_spread,
                     Counters& counters)
    : shape_(shape),
      policy_(policy),
      wear_spread_(wear_spread),
      counters_(counters),
      blocks_(shape.blocks),
      dies_(shape.dies) {
  for (Die& die : dies_) die.full.resize(shape.block_units() + 1UL);
  // from the last block to the first, because the block written last has the lowest number
  for (std::uint32_t block = initial.used_blocks(); block-- > 0;) {
    blocks_[block].valid = initial.valid_units(block);
    link(block);
    blocks_[block].last_change = -static_cast<std::int64_t>(block) * shape.block_units();
  }
  for (std::uint32_t block = initial.used_blocks(); block < shape.blocks; ++block) {
    dies_[shape_.die_of(block)].free.push_back(block);
    ++free_count_;
  }
}

std::uint32_t BlockPool::take(std::uint32_t die) {
  if (free_count_ == 0) return kNoBlock;
  while (dies_[die].free.empty()) die = (die + 1) % shape_.dies;
  const std::uint32_t block = dies_[die].free.front();
  dies_[die].free.pop_front();
  --free_count_;
  blocks_[block].state = State::kOpen;
  return block;
}

std::uint32_t BlockPool::fewest_valid(Die& die) const {
  while (die.fewest < die.full.size() && die.full[die.fewest].first == kNoBlock) ++die.fewest;
  return die.fewest;
}

std::uint32_t BlockPool::take_victim(std::uint32_t least_garbage) {
  std::uint32_t best = kNoBlock;
  for (std::uint32_t i = 1; i <= shape_.dies; ++i) {
    const std::uint32_t die = (last_die_ + i) % shape_.dies;
    if (fewest_valid(dies_[die]) + least_garbage > shape_.block_units()) continue;
    if (best == kNoBlock || dies_[die].free.size() < dies_[best].free.size()) best = die;
  }
  if (best == kNoBlock) return kNoBlock;
  last_die_ = best;
  std::uint32_t block = kNoBlock;
  if (wear_spread_ > 0 && ++dies_[best].victims >= kVictimsBetweenWearMoves) {
    dies_[best].victims = 0;
    block = least_worn(best);
    if (block != kNoBlock) ++counters_.wear_moves;
  }
  if (block == kNoBlock) block = choose(dies_[best]);
  unlink(block);
  blocks_[block].state = State::kOpen;
  return block;
}

// Returns the full block of the die that the policy collects. The die must have a full block with garbage.
std::uint32_t BlockPool::choose(Die& die) const {
  const std::uint32_t fewest = fewest_valid(die);
  if (policy_ == GcPolicy::kGreedy || fewest == 0) return die.full[fewest].first;
  // Benefit over cost is age * (1 - u) / 2u, where u is the share of valid units (M. Rosenblum and J. Ousterhout, The
  // design and implementation of a log-structured file system, ACM TOCS 1992; for flash A. Kawaguchi et al., USENIX
  // 1995). The first block of each list is the oldest.
  std::uint32_t best = kNoBlock;
  double most = -1;
  const std::uint32_t units = shape_.block_units();
  for (std::uint32_t valid = fewest; valid < units; ++valid) {
    const std::uint32_t block = die.full[valid].first;
    if (block == kNoBlock) continue;
    const double age = static_cast<double>(invalidations_ - blocks_[block].last_change);
    const double benefit = age * (units - valid) / (2.0 * valid);
    if (benefit > most) {
      most = benefit;
      best = block;
    }
  }
  return best;
}

// Returns the full block of the die with the lowest erase count, if it is at least wear_spread below the highest erase
// count of the die; otherwise kNoBlock.
std::uint32_t BlockPool::least_worn(std::uint32_t die) const {
  std::uint32_t least = kNoBlock;
  std::uint32_t most_erases = 0;
  for (std::uint32_t block = die; block < shape_.blocks; block += shape_.dies) {
    most_erases = std::max(most_erases, blocks_[block].erases);
    if (blocks_[block].state != State::kFull) continue;
    if (least == kNoBlock || blocks_[block].erases < blocks_[least].erases) least = block;
  }
  return least != kNoBlock && most_erases - blocks_[least].erases >= wear_spread_ ? least : kNoBlock;
}

void BlockPool::erased(std::uint32_t block) {
  blocks_[block].valid = 0;
  blocks_[block].state = State::kFree;
  ++blocks_[block].erases;
  dies_[shape_.die_of(block)].free.push_back(block);
  ++free_count_;
}

void BlockPool::remove_valid(std::uint32_t block) {
  ++invalidations_;
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
  Die& die = dies_[shape_.die_of(block)];
  each.state = State::kFull;
  each.last_change = invalidations_;
  List& list = die.full[each.valid];
  each.previous = list.last;
  each.next = kNoBlock;
  (list.last == kNoBlock ? list.first : blocks_[list.last].next) = block;
  list.last = block;
  die.fewest = std::min(die.fewest, each.valid);
}

void BlockPool::unlink(std::uint32_t block) {
  const Block& each = blocks_[block];
  List& list = dies_[shape_.die_of(block)].full[each.valid];
  (each.previous == kNoBlock ? list.first : blocks_[each.previous].next) = each.next;
  (each.next == kNoBlock ? list.last : blocks_[each.next].previous) = each.previous;
}

}  // namespace twin
