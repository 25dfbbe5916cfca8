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
  Nanoseconds read_time = 0;
  Nanoseconds program_time = 0;
  Nanoseconds erase_time = 0;
  std::int64_t channel_rate = 1;

  void visit(FieldVisitor& v) {
    v.number("channels", channels, Unit::kCount, 1, 64, "buses between controller and flash");
    v.number("dies_per_channel", dies_per_channel, Unit::kCount, 1, 64, "dies that share a channel and work at once");
    v.number("planes", planes, Unit::kCount, 1, 8, "planes of a die, which program and erase together");
    v.number("page", page, Unit::kBytes, 512, 1 << 20, "what is read or programmed at once on a plane");
    v.number("pages_per_block", pages_per_block, Unit::kCount, 8, 8192, "pages that are erased together");
    v.choice("cell", cell, {"slc", "mlc", "tlc"}, "bits per cell: one, two or three");
    v.number("read_time", read_time, Unit::kNanoseconds, 0, kSecond, "tR: from the array to the page register");
    v.number("program_time", program_time, Unit::kNanoseconds, 0, kSecond,
             "tPROG: from the page register to the array, mean over a block's pages");
    v.number("erase_time", erase_time, Unit::kNanoseconds, 0, 10 * kSecond, "tBERS: a block of each plane");
    v.number("channel_rate", channel_rate, Unit::kBytesPerSecond, 1'000'000, 100'000'000'000,
             "transfer between page register and controller");
  }
};

}  // namespace twin
