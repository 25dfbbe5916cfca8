// The flash array: dies that read, program and erase, and channels that transfer the data.
//
// A channel does one transfer at a time, and a die one operation at a time, both in the order of the calls, except that
// a read for the host may suspend a program or an erase. Calls come in the order of simulated time. Therefore the array
// only stores when each die and each channel will be free.
#pragma once

#include <cstdint>
#include <vector>

#include "core/counters.h"
#include "core/random.h"
#include "core/units.h"
#include "flash/flash_parameters.h"

namespace twin {

// A page of a die, or the page with the same number on each of its planes.
struct FlashPage {
  std::uint32_t die = 0;
  std::uint32_t row = 0;  // number of the page in its block; decides whether it is a lower or an upper page
};

// Whether a read is for the host or for the drive itself. Only a read for the host may suspend a program or an erase.
enum class ReadFor : std::uint8_t { kHost, kDrive };

class Flash {
 public:
  // `seed` decides which page reads need retries, and when each die does its housekeeping.
  Flash(const FlashParameters& parameters, const AgeingParameters& ageing, std::uint64_t seed, Counters& counters);

  // Reads a page, or one page of each plane, from the array into the page register of the die (tR). Returns when the
  // data are in the register.
  Nanoseconds array_read(Nanoseconds now, FlashPage page, ReadFor who);

  // Transfers data between the page register of a die and the controller, in either direction. Returns when they have
  // arrived.
  Nanoseconds transfer(Nanoseconds now, std::uint32_t die, std::uint64_t size_bytes);

  // Returns the size of the complete codewords that contain `size_bytes` of a page.
  [[nodiscard]] std::uint64_t in_codewords(std::uint64_t size_bytes) const;

  // Transfers data to the die and programs them on all planes (tPROG). Returns when they are in the array, unless reads
  // suspend the program: see postponed_ns().
  Nanoseconds program(Nanoseconds now, FlashPage page, std::uint64_t size_bytes);

  // Erases a block on each plane of the die (tBERS). Returns when it is erased, unless reads suspend the erase.
  Nanoseconds erase(Nanoseconds now, std::uint32_t die);

  // Returns the total time for which reads have suspended programs and erases of the die. An operation ends later by
  // the growth of this number while the operation waits or runs.
  [[nodiscard]] Nanoseconds postponed_ns(std::uint32_t die) const { return dies_[die].postponed; }

 private:
  struct Die {
    Nanoseconds work_until = 0;       // end of all programs, erases and reads for the drive itself
    Nanoseconds reads_until = 0;      // end of all reads for the host
    Nanoseconds suspended_since = 0;  // start of the last suspension
    Nanoseconds suspendable_from = 0;
    Nanoseconds postponed = 0;
    Nanoseconds housekeeping = 0;  // when the first housekeeping begins
  };

  [[nodiscard]] Nanoseconds after_housekeeping(Nanoseconds ready, const Die& die) const;
  Nanoseconds read_time(std::uint32_t row);

  FlashParameters parameters_;
  Counters& counters_;
  std::vector<Nanoseconds> read_time_;  // by the page's number in its cell
  std::vector<Nanoseconds> program_time_;
  Nanoseconds erase_time_;
  std::uint64_t retry_threshold_;  // a random number below it means a retry
  Random random_;
  std::vector<Die> dies_;
  std::vector<Nanoseconds> channel_free_;
};

}  // namespace twin
