// Parameters of the NAND flash: its geometry, its times and its wear.
#pragma once

#include <cstdint>

#include "core/fields.h"
#include "core/units.h"

namespace twin {

enum class CellType : std::uint8_t { kSlc, kMlc, kTlc };

struct FlashParameters {
  std::int64_t channels = 1;
  std::int64_t dies_per_channel = 1;
  std::int64_t planes = 1;
  std::int64_t page = 4096;
  std::int64_t pages_per_block = 64;
  CellType cell = CellType::kSlc;
  std::int64_t codeword = 512;
  Nanoseconds read_time = 0;
  Nanoseconds program_time = 0;
  Nanoseconds erase_time = 0;
  std::int64_t channel_rate = 1;
  double read_time_spread = 0;
  double program_time_spread = 0;
  Nanoseconds suspend_time = 0;
  Nanoseconds suspend_interval = 0;
  double read_retry_rate = 0;
  std::int64_t read_retries = 1;
  Nanoseconds housekeeping_interval = 0;
  Nanoseconds housekeeping_time = 0;
  Nanoseconds housekeeping_slice = 0;

  void visit(FieldVisitor& v) {
    v.count("channels", channels, 1, 64, "buses between controller and flash");
    v.count("dies_per_channel", dies_per_channel, 1, 64, "dies that share a channel and work at the same time");
    v.count("planes", planes, 1, 8, "planes of a die, which are programmed and erased together");
    v.size("page", page, 512, 1 << 20, "amount of data that is read or programmed at once on a plane");
    v.count("pages_per_block", pages_per_block, 8, 8192, "pages that are erased together");
    v.choice("cell", cell, {"slc", "mlc", "tlc"}, "bits per cell: one, two or three");
    v.size("codeword", codeword, 512, 1 << 20,
           "unit of error correction, which is always transferred completely; at most a page");
    v.time("read_time", read_time, kSecond,
           "tR: time to read a page from the array into the page register, mean over the pages of a block");
    v.time("program_time", program_time, kSecond,
           "tPROG: time to program a page from the page register into the array, mean over the pages of a block");
    v.time("erase_time", erase_time, 10 * kSecond, "tBERS: time to erase a block of each plane");
    v.rate("channel_rate", channel_rate, 1'000'000, 100'000'000'000, "transfer rate of a channel");
    v.ratio("read_time_spread", read_time_spread, 0, 0.9,
            "tR of a cell's lower page is shorter than the mean, and tR of its upper page longer, by this share");
    v.ratio("program_time_spread", program_time_spread, 0, 0.9,
            "tPROG of a cell's lower page is shorter than the mean, and tPROG of its upper page longer, by this share");
    v.time("suspend_time", suspend_time, 10 * kMillisecond,
           "time to suspend a program or an erase for a read by the host, and again to resume it; 0: never suspended");
    v.time("suspend_interval", suspend_interval, 100 * kMillisecond,
           "longest suspension, and time for which a resumed operation runs before the next one");
    v.ratio("read_retry_rate", read_retry_rate, 0, 1, "share of page reads that are repeated with other thresholds");
    v.count("read_retries", read_retries, 1, 64, "number of further reads of such a page");
    v.time("housekeeping_interval", housekeeping_interval, 3600 * kSecond,
           "interval at which each die does housekeeping, such as checking and refreshing pages; 0: never");
    v.time("housekeeping_time", housekeeping_time, kSecond, "duration of housekeeping");
    v.time("housekeeping_slice", housekeeping_slice, kSecond,
           "time of housekeeping after which waiting operations are let in, repeatedly; 0: only at the end");
  }
};

// Wear of the flash. For a new drive `cycles` is 0, and the other parameters of this group have no effect.
struct AgeingParameters {
  std::int64_t cycles = 0;
  std::int64_t rated_cycles = 3000;
  double retry_rate_when_worn = 0;
  double erase_time_when_worn = 1;
  double program_time_when_worn = 1;

  void visit(FieldVisitor& v) {
    v.count("cycles", cycles, 0, 1'000'000, "program/erase cycles of every block when the measurement begins");
    v.count("rated_cycles", rated_cycles, 1, 1'000'000, "rated program/erase cycles, at which the flash is worn");
    v.ratio("retry_rate_when_worn", retry_rate_when_worn, 0, 1,
            "increase of read_retry_rate in worn flash; it grows with the square of the cycles");
    v.ratio("erase_time_when_worn", erase_time_when_worn, 0.1, 10,
            "tBERS of worn flash as a multiple of tBERS of new flash; it changes in proportion to the cycles");
    v.ratio("program_time_when_worn", program_time_when_worn, 0.1, 10,
            "tPROG of worn flash as a multiple of new flash, in proportion to the cycles; below 1 if worn cells charge "
            "faster");
  }
};

}  // namespace twin
