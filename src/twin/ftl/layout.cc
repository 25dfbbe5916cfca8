// Sequential and random initial placement.
#include "ftl/layout.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "core/random.h"

namespace twin {
namespace {

// Returns how far the order of the dies in a row is rotated.
std::uint32_t rotation(const BlockShape& shape, std::uint64_t row) {
  return static_cast<std::uint32_t>(mix(row + 1) % shape.dies);
}

// Returns the t for which (1 - exp(-t)) / t equals the utilization.
double decay_for(double utilization) {
  double low = 1e-9;
  double high = 1e6;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (-std::expm1(-middle) / middle > utilization ? low : high) = middle;
  }
  return low;
}

}  // namespace

std::uint32_t die_in_turn(const BlockShape& shape, std::uint64_t row, std::uint32_t turn) {
  return (turn + rotation(shape, row)) % shape.dies;
}

std::uint32_t turn_of_die(const BlockShape& shape, std::uint64_t row, std::uint32_t die) {
  return (die + shape.dies - rotation(shape, row)) % shape.dies;
}

InitialLayout::InitialLayout(InitialState state, const BlockShape& shape, std::uint32_t units,
                             std::uint32_t free_blocks)
    : state_(state), shape_(shape), units_(units) {
  const std::uint64_t block_units = shape.block_units();
  if (state == InitialState::kSequential) {
    const std::uint64_t stripe_units = block_units * shape.dies;
    used_blocks_ = static_cast<std::uint32_t>((units + stripe_units - 1) / stripe_units * shape.dies);
  }
  if (state == InitialState::kRandom) {
    used_blocks_ = shape.blocks - free_blocks;
    half_bits_ = std::max(1U, (static_cast<unsigned>(std::bit_width(units - 1U)) + 1) / 2);
    const double decay = decay_for(units / (static_cast<double>(used_blocks_) * static_cast<double>(block_units)));
    first_rank_.resize(used_blocks_ + 1UL);
    for (std::uint32_t block = 0; block <= used_blocks_; ++block) {
      const double share = std::expm1(-decay * block / used_blocks_) / std::expm1(-decay);
      first_rank_[block] = static_cast<std::uint32_t>(std::llround(share * units));
    }
  }
}

std::uint32_t InitialLayout::valid_units(std::uint32_t block) const {
  if (block >= used_blocks_) return 0;
  if (state_ == InitialState::kRandom) return first_rank_[block + 1UL] - first_rank_[block];
  const std::uint64_t stripe = block / shape_.dies;
  const std::uint64_t stripe_units = static_cast<std::uint64_t>(shape_.block_units()) * shape_.dies;
  if ((stripe + 1) * stripe_units <= units_) return shape_.block_units();
  // the data end in the last stripe
  std::uint32_t valid = 0;
  const std::uint32_t first_page = block * shape_.block_units();
  for (std::uint32_t i = 0; i < shape_.block_units(); ++i) valid += unit_at(first_page + i) != kNoUnit;
  return valid;
}

std::uint32_t InitialLayout::physical_page_of(std::uint32_t unit) const {
  const std::uint32_t block_units = shape_.block_units();
  if (state_ == InitialState::kFresh || unit >= units_) return kNoUnit;
  if (state_ == InitialState::kSequential) {
    const std::uint32_t program = unit / shape_.row_units;
    const std::uint32_t row = program / shape_.dies;
    const std::uint32_t die = die_in_turn(shape_, row, program % shape_.dies);
    const std::uint32_t block = row / shape_.rows * shape_.dies + die;
    return block * block_units + row % shape_.rows * shape_.row_units + unit % shape_.row_units;
  }
  const std::uint32_t rank = permute(unit, false);
  const auto after = std::upper_bound(first_rank_.begin(), first_rank_.end(), rank);
  const auto block = static_cast<std::uint32_t>(after - first_rank_.begin() - 1);
  return block * block_units + (rank - first_rank_[block]);
}

std::uint32_t InitialLayout::unit_at(std::uint32_t page) const {
  const std::uint32_t block_units = shape_.block_units();
  const std::uint32_t block = page / block_units;
  const std::uint32_t within = page % block_units;
  if (block >= used_blocks_) return kNoUnit;
  if (state_ == InitialState::kSequential) {
    const std::uint64_t row = static_cast<std::uint64_t>(block / shape_.dies) * shape_.rows + within / shape_.row_units;
    const std::uint32_t turn = turn_of_die(shape_, row, shape_.die_of(block));
    const std::uint64_t unit = (row * shape_.dies + turn) * shape_.row_units + within % shape_.row_units;
    return unit < units_ ? static_cast<std::uint32_t>(unit) : kNoUnit;
  }
  if (within >= valid_units(block)) return kNoUnit;
  return permute(first_rank_[block] + within, true);
}

// Returns the image of a unit under a fixed permutation of the units, or under its inverse. The permutation is a
// Feistel network on the next larger even number of bits, repeated until the result is a unit.
std::uint32_t InitialLayout::permute(std::uint32_t unit, bool inverse) const {
  constexpr int kRounds = 4;
  const std::uint32_t mask = (1U << half_bits_) - 1;
  std::uint64_t value = unit;
  do {
    auto left = static_cast<std::uint32_t>(value >> half_bits_) & mask;
    auto right = static_cast<std::uint32_t>(value) & mask;
    // the inverse has the same rounds in reverse order, with exchanged halves
    if (inverse) std::swap(left, right);
    for (int i = 0; i < kRounds; ++i) {
      const std::uint64_t round = static_cast<std::uint64_t>(inverse ? kRounds - i : i + 1) << 32;
      left = std::exchange(right, left ^ (static_cast<std::uint32_t>(mix(round | right)) & mask));
    }
    if (inverse) std::swap(left, right);
    value = static_cast<std::uint64_t>(left) << half_bits_ | right;
  } while (value >= units_);
  return static_cast<std::uint32_t>(value);
}

}  // namespace twin
