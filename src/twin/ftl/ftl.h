// The flash translation layer (FTL) as the controller sees it: it turns reads and writes of mapping units into flash
// operations.
//
// A mapping unit is what one entry of the logical-to-physical map stands for. Calls come in the order of simulated
// time, from within events.
#pragma once

#include <cstdint>

#include "core/counters.h"
#include "core/units.h"

namespace twin {

// The user of an FTL. The FTL calls it during and after the flash operations.
class FtlClient {
 public:
  // Another `size_bytes` of the read() with this token are in the controller's memory. They can be sent to the host
  // while the rest of their page is still being transferred.
  virtual void read_progress(Nanoseconds now, std::uint64_t token, std::uint64_t size_bytes) = 0;
  // All data of the read() with this token are in the controller's memory.
  virtual void read_done(Nanoseconds now, std::uint64_t token) = 0;
  // All units of the write() with this token are in flash. Their buffer space is free.
  virtual void write_done(Nanoseconds now, std::uint64_t token) = 0;

 protected:
  ~FtlClient() = default;
};

class Ftl {
 public:
  virtual ~Ftl() = default;

  // Starts to read `count` units from `unit` on, of which the controller needs `size_bytes` in total. Returns false,
  // and never calls the client, if no flash has to be read, because all units are unmapped and their map entries in
  // memory.
  virtual bool read(Nanoseconds now, std::uint64_t unit, std::uint32_t count, std::uint64_t size_bytes,
                    std::uint64_t token) = 0;

  // Starts to program `count` units, at most program_units(), in any order. Never refuses: programs for which the flash
  // is not free wait in the order of the calls.
  virtual void write(Nanoseconds now, const std::uint64_t* units, std::uint32_t count, std::uint64_t token) = 0;

  // Unmaps units. Reading them then needs no flash, and garbage collection does not move them.
  virtual void discard(Nanoseconds now, std::uint64_t unit, std::uint64_t count) = 0;

  // Gives the FTL time for background garbage collection and merges: there has been no command since `since`.
  virtual void idle(Nanoseconds now, Nanoseconds since) = 0;

  // The size of a mapping unit, and the number of units in a flash page.
  [[nodiscard]] virtual std::uint32_t unit_bytes() const = 0;
  [[nodiscard]] virtual std::uint32_t page_units() const = 0;

  // The time without a command after which idle() is to be called; 0: never.
  [[nodiscard]] virtual Nanoseconds background_idle() const = 0;

  // The best size of a write() (a page on each plane), and the number of such writes that the flash accepts at once.
  [[nodiscard]] virtual std::uint32_t program_units() const = 0;
  [[nodiscard]] virtual std::uint32_t parallel_programs() const = 0;

  // Records the erase count of each block, and the ratio of valid units of each block that is not free.
  virtual void record(Nanoseconds now, Recorder& recorder) const = 0;
};

}  // namespace twin
