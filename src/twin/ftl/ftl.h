// The flash translation layer as the controller sees it: reads and writes of mapping units in, flash
// operations out.
//
// A mapping unit is what one entry of the logical-to-physical map stands for. Calls come in the order of simulated
// time, from within events.
#pragma once

#include <cstdint>

#include "core/counters.h"
#include "core/units.h"

namespace twin {

// The user of an FTL, which is told when the flash operations that it asked for are done.
class FtlClient {
 public:
  // `size_bytes` more of the read() with this token have arrived in the controller's memory. They can go on to the host
  // while the rest of their page is still on its channel.
  virtual void read_progress(Nanoseconds now, std::uint64_t token, std::uint64_t size_bytes) = 0;
  // All data of the read() with this token have arrived.
  virtual void read_done(Nanoseconds now, std::uint64_t token) = 0;
  // The `count` units of one write() with this token are in flash; their buffer space is free.
  virtual void write_done(Nanoseconds now, std::uint64_t token, std::uint32_t count) = 0;

 protected:
  ~FtlClient() = default;
};

class Ftl {
 public:
  virtual ~Ftl() = default;

  // Starts to read `count` units from `unit` on, of which the controller wants `size_bytes` in all. Returns false, and
  // does not call the client, when no flash has to be read: all units unmapped, and their entries of the map in memory.
  virtual bool read(Nanoseconds now, std::uint64_t unit, std::uint32_t count, std::uint64_t size_bytes,
                    std::uint64_t token) = 0;

  // Takes `count` units, in any order, at most program_units(), and starts to program them. Never refuses: programs for
  // which the flash is not free wait in the order of the calls.
  virtual void write(Nanoseconds now, const std::uint64_t* units, std::uint32_t count, std::uint64_t token) = 0;

  // Unmaps units: reading them needs no flash, and garbage collection does not move them.
  virtual void discard(Nanoseconds now, std::uint64_t unit, std::uint64_t count) = 0;

  // The controller has had no command since `since`: the time for background garbage collection and merges.
  virtual void idle(Nanoseconds now, Nanoseconds since) = 0;

  // How many bytes a mapping unit has, and how many units a flash page.
  [[nodiscard]] virtual std::uint32_t unit_bytes() const = 0;
  [[nodiscard]] virtual std::uint32_t page_units() const = 0;

  // After how much time without a command idle() is to be called; 0: never.
  [[nodiscard]] virtual Nanoseconds background_idle() const = 0;

  // How many units one write() fills best (a page on each plane), and how many such writes flash takes at once.
  [[nodiscard]] virtual std::uint32_t program_units() const = 0;
  [[nodiscard]] virtual std::uint32_t parallel_programs() const = 0;

  // Reports erase counts and valid ratios of all used blocks.
  virtual void record(Nanoseconds now, Recorder& recorder) const = 0;
};

}  // namespace twin
