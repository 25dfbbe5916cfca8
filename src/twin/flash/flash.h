// The flash array: dies that read, program and erase, on channels that carry the data.
//
// A channel does one transfer at a time, in the order of the calls. A die does one operation at a time, in the order of
// the calls, but a read for the host may interrupt a program or an erase. Calls come in the order of simulated time. It
// is therefore enough to know of each die and each channel when it will be free.
#pragma once

#include <cstdint>
#include <vector>

#include "core/counters.h"
#include "core/units.h"
#include "flash/flash_parameters.h"

namespace twin {

// A page of flash, or the same page of each plane: its die, and its number in its block, which says whether it is a
// lower or an upper page of its cells.
struct FlashPage {
  std::uint32_t die = 0;
  std::uint32_t row = 0;
};

// Whether a read is for the host or for the drive itself. A read for the host may interrupt other work of the die.
enum class ReadFor : std::uint8_t { kHost, kDrive };

class Flash {
 public:
  // `seed` decides which pages need retries and when each die has its housekeeping.
  Flash(const FlashParameters& parameters, const AgeingParameters& ageing, std::uint64_t seed, Counters& counters);

  [[nodiscard]] std::uint32_t dies() const { return static_cast<std::uint32_t>(dies_.size()); }

  // Reads a page, or one page of each plane, from the array into the die's page register (tR). Returns when the data
  // are in the register.
  Nanoseconds array_read(Nanoseconds now, FlashPage page, ReadFor who);

  // Transfers data from a die's page register over its channel to the controller. The data must be in the register.
  // Returns when they have arrived.
  Nanoseconds data_out(Nanoseconds now, std::uint32_t die, std::uint64_t size_bytes);

  // How many bytes of a page are sent for so many that are asked for.
  [[nodiscard]] std::uint64_t in_codewords(std::uint64_t size_bytes) const;

  // Transfers data to the die and programs them on all planes (tPROG). Returns when they are in the array, unless reads
  // interrupt it: see postponed_ns().
  Nanoseconds program(Nanoseconds now, FlashPage page, std::uint64_t size_bytes);

  // Erases a block on each plane of the die (tBERS). Returns when that is done, unless reads interrupt it.
  Nanoseconds erase(Nanoseconds now, std::uint32_t die);

  // For how long reads have interrupted the die's programs and erases in all. What it grows by while an operation waits
  // or runs is what the operation ends later than it would have.
  [[nodiscard]] Nanoseconds postponed_ns(std::uint32_t die) const { return dies_[die].postponed; }

 private:
  struct Die {
    Nanoseconds work_until = 0;   // end of all programs, erases and reads of the drive itself
    Nanoseconds reads_until = 0;  // end of all reads for the host
    Nanoseconds interrupted_since = 0;
    Nanoseconds interruptible_from = 0;
    Nanoseconds postponed = 0;
    Nanoseconds housekeeping = 0;  // when the first one begins
  };

  [[nodiscard]] std::size_t channel_of(std::uint32_t die) const { return die % channel_free_.size(); }
  [[nodiscard]] Nanoseconds begin(Nanoseconds ready, const Die& die) const;
  Nanoseconds read_time(std::uint32_t row);
  std::uint64_t draw();

  FlashParameters parameters_;
  Counters& counters_;
  std::vector<Nanoseconds> read_time_;  // by the page's number in its cell
  std::vector<Nanoseconds> program_time_;
  Nanoseconds erase_time_;
  std::uint64_t retry_threshold_;  // a draw below it is a retry
  std::uint64_t random_;
  std::vector<Die> dies_;
  std::vector<Nanoseconds> channel_free_;
};

}  // namespace twin
