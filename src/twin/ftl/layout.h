// The initial placement of units on a drive that has not been written since it was created. The physical page of a unit
// is computed on request, so a large drive needs no table.
#pragma once

#include <cstdint>
#include <vector>

#include "ftl/ftl_parameters.h"

namespace twin {

// The numbering of blocks and pages. A block is an erase block of each plane of one die; these are erased together.
// Block b is on die b mod dies. A row is a page of each plane, with the same number in its block; these are programmed
// together. A physical page is the space of one mapping unit. Its number is block * block_units + row * row_units + its
// position in the row.
struct BlockShape {
  std::uint32_t dies = 1;
  std::uint32_t rows = 1;       // in a block
  std::uint32_t row_units = 1;  // in a row
  std::uint32_t blocks = 1;     // in the drive

  [[nodiscard]] std::uint32_t block_units() const { return rows * row_units; }
  [[nodiscard]] std::uint32_t die_of(std::uint32_t block) const { return block % dies; }
};

// Programs go to the dies in turns, one round for each row of the drive. die_in_turn() returns the die of a turn,
// turn_of_die() the turn of a die. The order differs from row to row: with the same order in every row, readers at
// distances of a power of two would always use the same die.
std::uint32_t die_in_turn(const BlockShape& shape, std::uint64_t row, std::uint32_t turn);
std::uint32_t turn_of_die(const BlockShape& shape, std::uint64_t row, std::uint32_t die);

// Stands for no unit and for no physical page.
inline constexpr std::uint32_t kNoUnit = 0xFFFFFFFF;

// A drive whose first `units` are fresh, filled in order, or overwritten at random until garbage collection is steady.
// The units after these were never written. Under uniformly random writes the share of valid units in a block falls
// exponentially with the age of the block, from 1 for the youngest block to the share of the next victim (P. Desnoyers,
// Analytic modeling of SSD write performance, SYSTOR 2012, for collecting the oldest block; greedy collection is close
// to it for uniform writes).
class InitialLayout {
 public:
  // `free_blocks` is the number of blocks that garbage collection keeps free in the steady state.
  InitialLayout(InitialState state, const BlockShape& shape, std::uint32_t units, std::uint32_t free_blocks);

  // Returns the number of blocks that contain data: blocks 0 to used_blocks() - 1.
  [[nodiscard]] std::uint32_t used_blocks() const { return used_blocks_; }

  [[nodiscard]] std::uint32_t valid_units(std::uint32_t block) const;

  // Returns the physical page of a unit; kNoUnit if the unit was never written.
  [[nodiscard]] std::uint32_t physical_page_of(std::uint32_t unit) const;

  // Returns the unit on a physical page; kNoUnit if the page is free or its unit was overwritten.
  [[nodiscard]] std::uint32_t unit_at(std::uint32_t page) const;

 private:
  [[nodiscard]] std::uint32_t permute(std::uint32_t unit, bool inverse) const;

  InitialState state_;
  BlockShape shape_;
  std::uint32_t units_;
  std::uint32_t used_blocks_ = 0;
  unsigned half_bits_ = 1;
  std::vector<std::uint32_t> first_rank_;  // random state, by block: number of valid units in all blocks before it
};

}  // namespace twin
