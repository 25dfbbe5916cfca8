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
  double over_provisioning = 0;

  void visit(FieldVisitor& v) {
    v.choice("mapping", mapping, {"page", "log_block"},
             "page: maps each page; log_block: maps blocks, with a few page-mapped log blocks (drives of 2008)");
    v.choice("initial_state", initial_state, {"fresh", "sequential", "random"},
             "fresh: never written; sequential: filled once in order; random: overwritten at random until garbage "
             "collection is steady");
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
    v.number("unit", unit, Unit::kBytes, 512, 65536, "mapping unit: amount of data for which the map has an entry");
    v.ratio("map_cache_coverage", map_cache_coverage, 0.0001, 1,
            "share of the map that fits into memory; the rest is read from flash on demand");
    v.number("map_entry", map_entry, Unit::kBytes, 1, 64, "size of a map entry");
    v.number("map_page_entries", map_page_entries, Unit::kCount, 16, 65536, "map entries in a flash page");
    v.toggle("map_batch_fetch", map_batch_fetch,
             "whether reading a page of the map loads all its entries or only the one that is needed");
    v.choice(
        "gc_policy", gc_policy, {"greedy", "cost_benefit"},
        "block that is collected: greedy: the one with the fewest valid units; cost_benefit: weighs valid units and "
        "time since the last change");
    v.number("gc_reserve", gc_reserve, Unit::kCount, 3, 1024,
             "erased blocks that garbage collection keeps for each die, including blocks being filled; the rest of the "
             "spare space holds data");
    v.toggle("gc_whole_blocks", gc_whole_blocks,
             "whether garbage collection moves a complete block within its die, which is busy for that time, or moves "
             "row by row to all dies in turn");
    v.number("background_gc_idle", background_gc_idle, Unit::kNanoseconds, 0, 3600 * kSecond,
             "idle time after which background garbage collection starts; 0: never");
    v.number("background_gc_reserve", background_gc_reserve, Unit::kCount, 3, 65536,
             "erased blocks for each die at which background garbage collection ends");
    v.number("wear_spread", wear_spread, Unit::kCount, 0, 1'000'000,
             "difference between the erase counts of a die's blocks from which on static data are moved to level them; "
             "0: never");
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
    v.number("log_blocks", log_blocks, Unit::kCount, 1, 65536, "log blocks of the drive");
    v.number("blocks_per_log", blocks_per_log, Unit::kCount, 1, 65536,
             "data blocks that can share a log block (1: each has its own; many: fully associative)");
    v.number("group", group, Unit::kCount, 1, 4096, "flash blocks on different dies that are mapped and erased as one");
    v.number("spare_logs", spare_logs, Unit::kCount, 0, 65535,
             "log blocks that are kept free by merging early, so that a write need not wait for a merge; 0: none");
    v.number("background_merge_idle", background_merge_idle, Unit::kNanoseconds, 0, 3600 * kSecond,
             "idle time after which log blocks are merged in the background; 0: never");
  }
};

}  // namespace twin
