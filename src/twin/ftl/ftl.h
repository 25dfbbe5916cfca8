// The flash translation layer (FTL) as the controller sees it: it turns reads and writes of mapping units into flash
// operations.
//
// A mapping unit is what one entry of the logical-to-physical map stands for. Calls come in the order of simulated
// time, from within events.
#pragma once

#include <cstdint>
#include <span>

#include "core/counters.h"
#include "core/units.h"

namespace twin {

// Data are transferred from the flash, and to the host, in blocks of this size, or of a mapping unit if that is
// smaller. A block is read from its beginning.
inline constexpr std::uint64_t kBlockBytes = 4096;

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

// The properties of an FTL.
struct FtlProperties {
  std::uint64_t unit_bytes = 0;         // size of a mapping unit
  std::uint32_t page_units = 0;         // units in a flash page
  std::uint32_t program_units = 0;      // best size of a write(), and its largest: a page on each plane
  std::uint32_t parallel_programs = 0;  // number of such writes that the flash accepts at once
  Nanoseconds background_idle = 0;      // time without a command after which to call idle(); 0: never
};

class Ftl {
 public:
  virtual ~Ftl() = default;

  [[nodiscard]] const FtlProperties& properties() const { return properties_; }

  // Starts to read `count` units from `unit` on, from which the controller needs `size_bytes`. Returns false,
  // and never calls the client, if no flash has to be read, because all units are unmapped and their map entries in
  // memory.
  virtual bool read(Nanoseconds now, std::uint64_t unit, std::uint32_t count, std::uint64_t size_bytes,
                    std::uint64_t token) = 0;

  // Starts to program units, at most `program_units`, in any order. Never refuses: programs for which the flash is not
  // free wait in the order of the calls.
  virtual void write(Nanoseconds now, std::span<const std::uint64_t> units, std::uint64_t token) = 0;

  // Unmaps units. Reading them then needs no flash, and garbage collection does not move them.
  virtual void discard(Nanoseconds now, std::uint64_t unit, std::uint64_t count) = 0;

  // Gives the FTL time for background garbage collection and merges. Call after `background_idle` without a command.
  virtual void idle(Nanoseconds now) = 0;

  // Records the erase count of each block, and the ratio of valid units of each block that is not free.
  virtual void record(Nanoseconds now, Recorder& recorder) const = 0;

 protected:
  FtlProperties properties_;  // set by the constructor of each FTL
};

}  // namespace twin
