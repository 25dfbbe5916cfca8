// The counters of a drive, and the interface of recorders, which receive time series.
#pragma once

#include <cstdint>

#include "core/units.h"

namespace twin {

// clang-format off
// Declares each counter once, as COUNT(name) or TIME(name). Files and snapshots list the counters in this order. A unit
// is what one entry of the FTL's map stands for, 4 KiB on most drives.
#define TWIN_COUNTERS(COUNT, TIME)                                                             \
  /* host */                                                                                   \
  COUNT(read_commands) COUNT(write_commands) COUNT(flush_commands) COUNT(discard_commands)     \
  COUNT(read_bytes) COUNT(write_bytes) COUNT(discard_bytes)                                    \
  COUNT(merged_requests)                                                                       \
  COUNT(queue_depth_max)                                                                       \
  /* controller: reads served from the write buffer or the read cache, and from read-ahead */  \
  COUNT(buffer_read_hits) COUNT(prefetch_hits)                                                 \
  COUNT(prefetched_bytes) COUNT(prefetch_wasted_bytes)                                         \
  COUNT(buffer_full_waits) /* writes that found the write buffer full */                       \
  /* mapping cache: lookups by unit and by command; hits + misses = lookups */                 \
  COUNT(map_read_hits) COUNT(map_read_misses)                                                  \
  COUNT(map_write_hits) COUNT(map_write_misses)                                                \
  COUNT(map_discard_hits) COUNT(map_discard_misses)                                            \
  COUNT(map_request_hits) COUNT(map_request_misses)                                            \
  COUNT(translation_reads) COUNT(translation_writes)                                           \
  /* FTL; units_programmed = units_host + units_moved + units_padding */                       \
  COUNT(units_host) COUNT(units_moved) COUNT(units_padding) COUNT(units_programmed)            \
  COUNT(units_discarded)                                                                       \
  COUNT(switch_merges) COUNT(partial_merges) COUNT(full_merges)                                \
  COUNT(gc_runs_foreground) COUNT(gc_runs_background) TIME(gc_ns)                              \
  COUNT(wear_moves) /* blocks collected because other blocks were erased much more often */    \
  /* flash */                                                                                  \
  COUNT(page_reads) COUNT(page_programs) COUNT(block_erases)                                   \
  COUNT(read_retries) /* page reads that had to be repeated */                                 \
  COUNT(suspensions)  /* of programs and erases, by reads for the host */                      \
  /* disk */                                                                                   \
  COUNT(seeks) TIME(seek_ns) TIME(rotation_ns)

// clang-format on

// Totals since the drive was created.
struct Counters {
#define TWIN_COUNT(name) std::uint64_t name = 0;
#define TWIN_TIME(name) Nanoseconds name = 0;
  TWIN_COUNTERS(TWIN_COUNT, TWIN_TIME)
#undef TWIN_COUNT
#undef TWIN_TIME
};

// Calls visit(name, value) for each counter, in the order of TWIN_COUNTERS.
template <class Visit>
void visit_counters(const Counters& counters, Visit&& visit) {
#define TWIN_VISIT(name) visit(#name, static_cast<std::uint64_t>(counters.name));
  TWIN_COUNTERS(TWIN_VISIT, TWIN_VISIT)
#undef TWIN_VISIT
}

// The time series that a recorder receives. `index` is 0 unless stated otherwise.
enum class Series : std::uint16_t {
  kQueueDepth,  // after each command that is sent or completed
  kCounter,     // at each snapshot; index: the counter's position in TWIN_COUNTERS
  kEraseCount,  // at each snapshot; index: block
  kValidRatio,  // at each snapshot, for blocks that are not free; index: block
};

class Recorder {
 public:
  virtual void record(Nanoseconds now, Series series, std::uint32_t index, double value) = 0;

 protected:
  ~Recorder() = default;
};

// Records a snapshot of all counters.
inline void record_counters(const Counters& counters, Nanoseconds now, Recorder& recorder) {
  std::uint32_t index = 0;
  visit_counters(counters, [&](const char*, std::uint64_t value) {
    recorder.record(now, Series::kCounter, index++, static_cast<double>(value));
  });
}

}  // namespace twin
