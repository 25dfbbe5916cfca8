// NAND flash: how it is laid out, and how long it takes.
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
    v.number("channels", channels, Unit::kCount, 1, 64, "buses between controller and flash");
    v.number("dies_per_channel", dies_per_channel, Unit::kCount, 1, 64, "dies that share a channel and work at once");
    v.number("planes", planes, Unit::kCount, 1, 8, "planes of a die, which program and erase together");
    v.number("page", page, Unit::kBytes, 512, 1 << 20, "what is read or programmed at once on a plane");
    v.number("pages_per_block", pages_per_block, Unit::kCount, 8, 8192, "pages that are erased together");
    v.choice("cell", cell, {"slc", "mlc", "tlc"}, "bits per cell: one, two or three");
    v.number("codeword", codeword, Unit::kBytes, 512, 1 << 20,
             "what errors are corrected in, so that it is sent to the controller whole; at most a page");
    v.number("read_time", read_time, Unit::kNanoseconds, 0, kSecond,
             "tR: from the array to the page register, mean over a block's pages");
    v.number("program_time", program_time, Unit::kNanoseconds, 0, kSecond,
             "tPROG: from the page register to the array, mean over a block's pages");
    v.number("erase_time", erase_time, Unit::kNanoseconds, 0, 10 * kSecond, "tBERS: a block of each plane");
    v.number("channel_rate", channel_rate, Unit::kBytesPerSecond, 1'000'000, 100'000'000'000,
             "transfer between page register and controller");
    v.ratio(
        "read_time_spread", read_time_spread, 0, 0.9,
        "by what share tR of the lower page of a cell is shorter, and that of its upper page longer, than the mean");
    v.ratio(
        "program_time_spread", program_time_spread, 0, 0.9,
        "by what share tPROG of the lower page of a cell is shorter, and that of its upper page longer, than the mean");
    v.number("suspend_time", suspend_time, Unit::kNanoseconds, 0, 10 * kMillisecond,
             "how long a die takes to interrupt a program or an erase for a host's read, and again to resume it; 0: it "
             "cannot");
    v.number("suspend_interval", suspend_interval, Unit::kNanoseconds, 0, 100 * kMillisecond,
             "the longest interruption, and how long a resumed operation runs before the next one");
    v.ratio("read_retry_rate", read_retry_rate, 0, 1,
            "share of page reads whose data need further reads with other thresholds");
    v.number("read_retries", read_retries, Unit::kCount, 1, 64, "how many further reads such a page takes");
    v.number("housekeeping_interval", housekeeping_interval, Unit::kNanoseconds, 0, 3600 * kSecond,
             "how often each die is taken for the drive's own work, such as checking and refreshing pages; 0: never");
    v.number("housekeeping_time", housekeeping_time, Unit::kNanoseconds, 0, kSecond, "and for how long each time");
    v.number("housekeeping_slice", housekeeping_slice, Unit::kNanoseconds, 0, kSecond,
             "after how long of it what waits for the die is let in, and again after as long; 0: at its end only");
  }
};

// What use has done to the flash. A new drive has no cycles behind it; then nothing else of this group has an effect.
struct AgeingParameters {
  std::int64_t cycles = 0;
  std::int64_t rated_cycles = 3000;
  double retry_rate_when_worn = 0;
  double erase_time_when_worn = 1;
  double program_time_when_worn = 1;

  void visit(FieldVisitor& v) {
    v.number("cycles", cycles, Unit::kCount, 0, 1'000'000,
             "program/erase cycles that every block has behind it when the measurement begins");
    v.number("rated_cycles", rated_cycles, Unit::kCount, 1, 1'000'000,
             "program/erase cycles that the flash is rated for: when they are used up it is worn");
    v.ratio("retry_rate_when_worn", retry_rate_when_worn, 0, 1,
            "what wear adds to read_retry_rate by then; it grows with the square of the cycles");
    v.ratio("erase_time_when_worn", erase_time_when_worn, 0.1, 10,
            "tBERS by then, as a multiple of that of new flash; it changes in proportion to the cycles");
    v.ratio("program_time_when_worn", program_time_when_worn, 0.1, 10,
            "tPROG by then, likewise; worn cells take charge more readily, so that it falls");
  }
};

}  // namespace twin
