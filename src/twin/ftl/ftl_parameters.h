// Parameters of the flash translation layer: mapping, spare space, garbage collection.
#pragma once

#include <cstdint>

#include "core/fields.h"
#include "core/units.h"

namespace twin {

enum class Mapping : std::uint8_t { kPage, kLogBlock };
enum class GcPolicy : std::uint8_t { kGreedy, kCostBenefit };
enum class InitialState : std::uint8_t { kFresh, kSequential, kRandom };

struct FtlParameters {
  Mapping mapping = Mapping::kPage;
  InitialState initial_state = InitialState::kFresh;
  std::int64_t initial_extent = 0;
  double over_provisioning = 0;

  // Returns how many of the drive's units initial_state has written, if it is not fresh.
  [[nodiscard]] std::uint32_t initial_units(std::uint32_t units, std::int64_t unit_bytes) const {
    const std::int64_t written = (initial_extent + unit_bytes - 1) / unit_bytes;
    return written == 0 || written > units ? units : static_cast<std::uint32_t>(written);
  }

  void visit(FieldVisitor& v) {
    v.choice("mapping", mapping, {"page", "log_block"},
             "page: maps pages; log_block: maps blocks, with a few page-mapped log blocks (drives of 2008)");
    v.choice("initial_state", initial_state, {"fresh", "sequential", "random"},
             "never written, filled once in order, or overwritten at random until garbage collection is steady");
    v.optional_size("initial_extent", initial_extent, 0, 1LL << 50,
                    "part of the drive, from its start, that initial_state has written; the rest is unwritten, as "
                    "after a discard; 0: all of the drive");
    v.ratio("over_provisioning", over_provisioning, 0.01, 31, "spare flash as a share of the capacity");
  }
};

// Page mapping: any unit can be stored on any page.
struct PageMappingParameters {
  std::int64_t unit = 4096;
  double map_cache_coverage = 1;
  std::int64_t map_entry = 8;
  std::int64_t map_page_entries = 512;
  bool map_batch_fetch = true;
  GcPolicy gc_policy = GcPolicy::kGreedy;
  std::int64_t gc_reserve = 3;
  bool gc_whole_blocks = false;
  Nanoseconds background_gc_idle = 0;
  std::int64_t background_gc_reserve = 3;
  std::int64_t wear_spread = 0;

  void visit(FieldVisitor& v) {
    v.size("unit", unit, 512, 65536, "mapping unit: amount of data for which the map has an entry");
    v.ratio("map_cache_coverage", map_cache_coverage, 0.0001, 1,
            "share of the map in memory; the rest is read on demand");
    v.size("map_entry", map_entry, 1, 64, "size of a map entry");
    v.count("map_page_entries", map_page_entries, 16, 65536, "map entries in a flash page");
    v.toggle("map_batch_fetch", map_batch_fetch,
             "whether reading a page of the map loads all its entries or only the one that is needed");
    v.choice("gc_policy", gc_policy, {"greedy", "cost_benefit"},
             "which block is collected: the one with the fewest valid units, or by valid units and age");
    v.count("gc_reserve", gc_reserve, 3, 1024,
            "erased blocks kept for each die, including blocks being filled; the other spare space holds data");
    v.toggle("gc_whole_blocks", gc_whole_blocks,
             "whether blocks are collected one by one, each within its die, or row by row to all dies in turn");
    v.time("background_gc_idle", background_gc_idle, 3600 * kSecond,
           "idle time before background collection; 0: never");
    v.count("background_gc_reserve", background_gc_reserve, 3, 65536,
            "erased blocks for each die at which background collection ends");
    v.count("wear_spread", wear_spread, 0, 1'000'000,
            "difference of erase counts in a die at which static data are moved; 0: never");
  }
};

// Hybrid mapping: data blocks are mapped as a whole, overwrites go to log blocks, and merges combine the two.
struct LogMappingParameters {
  std::int64_t log_blocks = 1;
  std::int64_t blocks_per_log = 1;
  std::int64_t group = 1;
  std::int64_t spare_logs = 0;
  Nanoseconds background_merge_idle = 0;

  void visit(FieldVisitor& v) {
    v.count("log_blocks", log_blocks, 1, 65536, "log blocks of the drive");
    v.count("blocks_per_log", blocks_per_log, 1, 65536,
            "data blocks that can share a log block (1: each has its own; many: fully associative)");
    v.count("group", group, 1, 4096, "flash blocks on different dies that are mapped and erased as one");
    v.count("spare_logs", spare_logs, 0, 65535,
            "log blocks that are kept free by merging early, so that a write need not wait for a merge; 0: none");
    v.time("background_merge_idle", background_merge_idle, 3600 * kSecond,
           "idle time before background merges; 0: never");
  }
};

}  // namespace twin
