// The flash array: dies that read, program and erase, on channels that carry the data.
//
// A die does one operation at a time, and so does a channel; each serves them in the order of the calls. Calls come in
// the order of simulated time. It is therefore enough to know of each die and each channel when it will be free.
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

  // Reads a page, or one page of each plane, from the array into the die's page register (tR). Returns when the data
  // are in the register.
  Nanoseconds array_read(Nanoseconds now, std::uint32_t die);

  // Transfers data from a die's page register over its channel to the controller. The data must be in the register.
  // Returns when they have arrived.
  Nanoseconds data_out(Nanoseconds now, std::uint32_t die, std::uint64_t size_bytes);

  // Transfers data to the die and programs them on all planes (tPROG). Returns when they are in the array.
  Nanoseconds program(Nanoseconds now, std::uint32_t die, std::uint64_t size_bytes);

  // Erases a block on each plane of the die (tBERS). Returns when that is done.
  Nanoseconds erase(Nanoseconds now, std::uint32_t die);

 private:
  [[nodiscard]] std::size_t channel_of(std::uint32_t die) const { return die % channel_free_.size(); }

  FlashParameters parameters_;
  Counters& counters_;
  std::vector<Nanoseconds> die_free_;
  std::vector<Nanoseconds> channel_free_;
};

}  // namespace twin
