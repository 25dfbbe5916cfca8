// The flash array: dies that read, program and erase, on channels that carry the data.
//
// Dies and channels each do one thing at a time, in the order in which they are asked. Calls come in the order of
// simulated time, so "free from then on" is all that is remembered of a die or a channel.
#pragma once

#include <cstdint>
#include <vector>

#include "core/counters.h"
#include "core/units.h"
#include "flash/flash_parameters.h"

namespace twin {

class Flash {
 public:
  Flash(const FlashParameters& parameters, Counters& counters);

  [[nodiscard]] std::uint32_t dies() const { return static_cast<std::uint32_t>(die_free_.size()); }

  // Reads a page (one of each plane, if more is wanted) into the die's register; returns when it is there.
  Nanoseconds sense(Nanoseconds now, std::uint32_t die);

  // Carries data from a die's register, where they are now, to the controller; returns when they are there.
  Nanoseconds fetch(Nanoseconds now, std::uint32_t die, std::uint64_t size_bytes);

  // Carries data to the die and programs them, on all planes; returns when they are in the array.
  Nanoseconds program(Nanoseconds now, std::uint32_t die, std::uint64_t size_bytes);

  // Erases a block on each plane of the die; returns when it is done.
  Nanoseconds erase(Nanoseconds now, std::uint32_t die);

 private:
  [[nodiscard]] std::size_t channel_of(std::uint32_t die) const { return die % channel_free_.size(); }

  FlashParameters parameters_;
  Counters& counters_;
  std::vector<Nanoseconds> die_free_;
  std::vector<Nanoseconds> channel_free_;
};

}  // namespace twin
