// The flash translation layer as the controller sees it: logical units in, flash operations out.
//
// A unit is what is mapped (FtlParameters::unit_bytes). Calls come in the order of simulated time, from within events.
#pragma once

#include <cstdint>

#include "core/counters.h"
#include "core/units.h"

namespace twin {

// Who asks the FTL, and is told when flash has done its part.
class FtlClient {
 public:
  // So many bytes of what read() was asked for with this token have come into the controller's memory: data pass on
  // while the rest of a page is still on its channel.
  virtual void read_progress(Nanoseconds now, std::uint64_t token, std::uint64_t size_bytes) = 0;
  // All of it has, after as many calls of read_progress() as were needed.
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
  // calls nobody, when no flash has to be read (units that were never written or are discarded, mapping at hand).
  virtual bool read(Nanoseconds now, std::uint64_t unit, std::uint32_t count, std::uint64_t size_bytes,
                    std::uint64_t token) = 0;

  // Takes `count` units, in any order, at most program_units(), and starts to program them. Always accepts; what the
  // flash is not free for waits in the order of the calls.
  virtual void write(Nanoseconds now, const std::uint64_t* units, std::uint32_t count, std::uint64_t token) = 0;

  // Forgets units: reading them costs no flash, collecting garbage never moves them.
  virtual void discard(Nanoseconds now, std::uint64_t unit, std::uint64_t count) = 0;

  // The controller has had no command since `since`: the time for background garbage collection and merges.
  virtual void idle(Nanoseconds now, Nanoseconds since) = 0;

  // How many units one write() fills best (a page on each plane), and how many such writes flash takes at once.
  [[nodiscard]] virtual std::uint32_t program_units() const = 0;
  [[nodiscard]] virtual std::uint32_t parallel_programs() const = 0;

  // Reports erase counts and valid ratios of all used blocks.
  virtual void record(Nanoseconds now, Recorder& recorder) const = 0;
};

}  // namespace twin
