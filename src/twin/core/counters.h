// What a drive counts while it works, and the recorder to which it reports series over time.
#pragma once

#include <cstdint>

#include "core/units.h"

namespace twin {

// Totals since the drive was made. A unit is what the FTL maps: 4 KiB on most drives.
struct Counters {
  // host
  std::uint64_t read_commands = 0, write_commands = 0, flush_commands = 0, discard_commands = 0;
  std::uint64_t read_bytes = 0, write_bytes = 0, discard_bytes = 0;
  std::uint64_t merged_requests = 0;
  std::uint64_t queue_depth_max = 0;
  // controller
  std::uint64_t buffer_read_hits = 0;  // reads served from the write buffer or the read cache
  std::uint64_t prefetch_hits = 0;     // reads served from what read-ahead fetched
  std::uint64_t prefetched_bytes = 0, prefetch_wasted_bytes = 0;
  std::uint64_t buffer_full_waits = 0;  // writes that found the write buffer full
  // mapping cache: lookups by unit and by command; hits + misses = lookups
  std::uint64_t map_read_hits = 0, map_read_misses = 0;
  std::uint64_t map_write_hits = 0, map_write_misses = 0;
  std::uint64_t map_discard_hits = 0, map_discard_misses = 0;
  std::uint64_t map_request_hits = 0, map_request_misses = 0;
  std::uint64_t translation_reads = 0, translation_writes = 0;
  // FTL; units_programmed = units_host + units_moved + units_padding
  std::uint64_t units_host = 0, units_moved = 0, units_padding = 0, units_programmed = 0;
  std::uint64_t units_discarded = 0;
  std::uint64_t switch_merges = 0, partial_merges = 0, full_merges = 0;
  std::uint64_t gc_runs_foreground = 0, gc_runs_background = 0;
  Nanoseconds gc_ns = 0;
  std::uint64_t wear_moves = 0;  // blocks collected because they were erased much less often than others
  // flash
  std::uint64_t page_reads = 0, page_programs = 0, block_erases = 0;
  std::uint64_t read_retries = 0;  // page reads that had to be repeated
  std::uint64_t suspensions = 0;   // of programs and erases, for reads of the host
  // disk
  std::uint64_t seeks = 0;
  Nanoseconds seek_ns = 0, rotation_ns = 0;
};

// The series that a recorder takes. Values of a series are numbered by `index` where it has several at one moment
// (blocks), else index is 0.
enum class Series : std::uint16_t {
  kQueueDepth,  // after each issue and each completion
  kCounter,     // at each snapshot; index: the counter's position in visit_counters()
  kEraseCount,  // index: block
  kValidRatio,  // index: block; used blocks alone
};

class Recorder {
 public:
  virtual void record(Nanoseconds now, Series series, std::uint32_t index, double value) = 0;

 protected:
  ~Recorder() = default;
};

// Calls visit(name, value) for each counter, in a fixed order.
template <class Visit>
void visit_counters(const Counters& c, Visit&& visit) {
  visit("read_commands", static_cast<std::uint64_t>(c.read_commands));
  visit("write_commands", static_cast<std::uint64_t>(c.write_commands));
  visit("flush_commands", static_cast<std::uint64_t>(c.flush_commands));
  visit("discard_commands", static_cast<std::uint64_t>(c.discard_commands));
  visit("read_bytes", static_cast<std::uint64_t>(c.read_bytes));
  visit("write_bytes", static_cast<std::uint64_t>(c.write_bytes));
  visit("discard_bytes", static_cast<std::uint64_t>(c.discard_bytes));
  visit("merged_requests", static_cast<std::uint64_t>(c.merged_requests));
  visit("queue_depth_max", static_cast<std::uint64_t>(c.queue_depth_max));
  visit("buffer_read_hits", static_cast<std::uint64_t>(c.buffer_read_hits));
  visit("prefetch_hits", static_cast<std::uint64_t>(c.prefetch_hits));
  visit("prefetched_bytes", static_cast<std::uint64_t>(c.prefetched_bytes));
  visit("prefetch_wasted_bytes", static_cast<std::uint64_t>(c.prefetch_wasted_bytes));
  visit("buffer_full_waits", static_cast<std::uint64_t>(c.buffer_full_waits));
  visit("map_read_hits", static_cast<std::uint64_t>(c.map_read_hits));
  visit("map_read_misses", static_cast<std::uint64_t>(c.map_read_misses));
  visit("map_write_hits", static_cast<std::uint64_t>(c.map_write_hits));
  visit("map_write_misses", static_cast<std::uint64_t>(c.map_write_misses));
  visit("map_discard_hits", static_cast<std::uint64_t>(c.map_discard_hits));
  visit("map_discard_misses", static_cast<std::uint64_t>(c.map_discard_misses));
  visit("map_request_hits", static_cast<std::uint64_t>(c.map_request_hits));
  visit("map_request_misses", static_cast<std::uint64_t>(c.map_request_misses));
  visit("translation_reads", static_cast<std::uint64_t>(c.translation_reads));
  visit("translation_writes", static_cast<std::uint64_t>(c.translation_writes));
  visit("units_host", static_cast<std::uint64_t>(c.units_host));
  visit("units_moved", static_cast<std::uint64_t>(c.units_moved));
  visit("units_padding", static_cast<std::uint64_t>(c.units_padding));
  visit("units_programmed", static_cast<std::uint64_t>(c.units_programmed));
  visit("units_discarded", static_cast<std::uint64_t>(c.units_discarded));
  visit("switch_merges", static_cast<std::uint64_t>(c.switch_merges));
  visit("partial_merges", static_cast<std::uint64_t>(c.partial_merges));
  visit("full_merges", static_cast<std::uint64_t>(c.full_merges));
  visit("gc_runs_foreground", static_cast<std::uint64_t>(c.gc_runs_foreground));
  visit("gc_runs_background", static_cast<std::uint64_t>(c.gc_runs_background));
  visit("gc_ns", static_cast<std::uint64_t>(c.gc_ns));
  visit("wear_moves", static_cast<std::uint64_t>(c.wear_moves));
  visit("page_reads", static_cast<std::uint64_t>(c.page_reads));
  visit("page_programs", static_cast<std::uint64_t>(c.page_programs));
  visit("block_erases", static_cast<std::uint64_t>(c.block_erases));
  visit("read_retries", static_cast<std::uint64_t>(c.read_retries));
  visit("suspensions", static_cast<std::uint64_t>(c.suspensions));
  visit("seeks", static_cast<std::uint64_t>(c.seeks));
  visit("seek_ns", static_cast<std::uint64_t>(c.seek_ns));
  visit("rotation_ns", static_cast<std::uint64_t>(c.rotation_ns));
}

}  // namespace twin
