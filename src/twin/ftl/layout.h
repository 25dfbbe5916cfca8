// Where units lie on a drive that has not been written to since it was made. The physical page of a unit is computed
// when it is asked for, so that a large drive needs no table.
#pragma once

#include <cstdint>
#include <vector>

#include "core/units.h"
#include "ftl/ftl_parameters.h"

namespace twin {

// How blocks and units are numbered. A block is an erase block of each plane of one die, which erase together; block b
// lies on die b mod dies. A row of a block is a page of each plane, which program together; a page's number in
// its block is row * row_units + its number in the row. A physical page is the room of one mapping unit; it is numbered
// block * block_units + its number in the block.
struct BlockShape {
  std::uint32_t dies = 1;
  std::uint32_t rows = 1;       // of a block
  std::uint32_t row_units = 1;  // of a row
  std::uint32_t blocks = 1;     // of the drive

  [[nodiscard]] std::uint32_t block_units() const { return rows * row_units; }
  [[nodiscard]] std::uint32_t die_of(std::uint32_t block) const { return block % dies; }
};

// The die that takes the `turn`-th program of a row of the whole drive. The order differs from row to row, so that
// readers a power of two apart do not meet on one die, as they would if it were always the same.
std::uint32_t die_in_turn(const BlockShape& shape, std::uint64_t row, std::uint32_t turn);
std::uint32_t turn_of_die(const BlockShape& shape, std::uint64_t row, std::uint32_t die);

inline constexpr std::uint32_t kNoUnit = 0xFFFFFFFF;

// The state in which a drive is found: fresh, filled in order, or overwritten at random until garbage collection is
// steady. Under uniformly random writes the share of a block's units that are still valid falls exponentially with its
// age, from 1 for the youngest block to that of the next victim (P. Desnoyers, Analytic modeling of SSD write
// performance, SYSTOR 2012, for cleaning the oldest block; greedy cleaning is close to it for uniform writes).
class InitialLayout {
 public:
  // `free_blocks`: how many blocks garbage collection keeps free when it is steady.
  InitialLayout(InitialState state, const BlockShape& shape, std::uint32_t units, std::uint32_t free_blocks);

  // How many blocks hold data: those from 0 on.
  [[nodiscard]] std::uint32_t used_blocks() const { return used_blocks_; }
  // How many units of a used block are valid, and how many have been programmed.
  [[nodiscard]] std::uint32_t valid_units(std::uint32_t block) const;
  [[nodiscard]] std::uint32_t programmed_units(std::uint32_t block) const;

  // The physical page of a unit, kNoUnit when the unit was never written; and the reverse, kNoUnit for a physical page
  // that is free or whose unit has been overwritten.
  [[nodiscard]] std::uint32_t physical_page_of(std::uint32_t unit) const;
  [[nodiscard]] std::uint32_t unit_at(std::uint32_t page) const;

 private:
  [[nodiscard]] std::uint32_t permute(std::uint32_t unit, bool backwards) const;

  InitialState state_;
  BlockShape shape_;
  std::uint32_t units_;
  std::uint32_t used_blocks_ = 0;
  unsigned half_bits_ = 1;
  std::vector<std::uint32_t> first_rank_;  // random state: how many valid units lie in the blocks before
};

}  // namespace twin
