// The flash translation layer: mapping, spare space, garbage collection.
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
             "a map of pages, or a map of blocks with a few page-mapped log blocks (drives of 2008)");
    v.choice("initial_state", initial_state, {"fresh", "sequential", "random"},
             "never written, filled once in order, or overwritten at random until garbage collection is steady");
    v.ratio("over_provisioning", over_provisioning, 0.01, 31, "flash beyond the capacity, as a share of the capacity");
  }
};

// Page mapping: any unit can lie anywhere.
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
    v.number("unit", unit, Unit::kBytes, 512, 65536, "what one entry of the map stands for");
    v.ratio("map_cache_coverage", map_cache_coverage, 0.0001, 1,
            "share of the map that fits into memory; the rest is fetched from flash on demand");
    v.number("map_entry", map_entry, Unit::kBytes, 1, 64, "size of an entry of the map");
    v.number("map_page_entries", map_page_entries, Unit::kCount, 16, 65536, "entries in a page of the map in flash");
    v.toggle("map_batch_fetch", map_batch_fetch,
             "whether fetching a page of the map brings in all its entries or the one that is wanted");
    v.choice("gc_policy", gc_policy, {"greedy", "cost_benefit"},
             "which block is collected: that with the fewest valid units, or also by how long it has not changed");
    v.number("gc_reserve", gc_reserve, Unit::kCount, 3, 1024,
             "erased blocks that garbage collection keeps for each die, those being filled included; the rest of the "
             "spare space holds data");
    v.toggle("gc_whole_blocks", gc_whole_blocks,
             "whether garbage is collected by whole blocks, each within its die, which is busy as long, or row by row "
             "to all dies in turn");
    v.number("background_gc_idle", background_gc_idle, Unit::kNanoseconds, 0, 3600 * kSecond,
             "idle time after which garbage is collected in the background; 0: never");
    v.number("background_gc_reserve", background_gc_reserve, Unit::kCount, 3, 65536,
             "erased blocks for each die at which collecting in the background ends");
    v.number("wear_spread", wear_spread, Unit::kCount, 0, 1'000'000,
             "how many erases blocks of a die may differ by before static data are moved to even them out; 0: any");
  }
};

// Hybrid mapping: data blocks mapped as a whole, overwrites go to log blocks, merges bring them together.
struct LogMappingParameters {
  std::int64_t log_blocks = 1;
  std::int64_t blocks_per_log = 1;
  std::int64_t group = 1;
  std::int64_t spare_logs = 0;
  Nanoseconds background_merge_idle = 0;

  void visit(FieldVisitor& v) {
    v.number("log_blocks", log_blocks, Unit::kCount, 1, 65536, "log blocks of the whole drive");
    v.number("blocks_per_log", blocks_per_log, Unit::kCount, 1, 65536,
             "data blocks that may share a log block (1: each its own; many: fully associative)");
    v.number("group", group, Unit::kCount, 1, 4096, "flash blocks on different dies that are mapped and erased as one");
    v.number("spare_logs", spare_logs, Unit::kCount, 0, 65535,
             "log blocks kept free by merging ahead, so that a write need not wait for its merge; 0: none");
    v.number("background_merge_idle", background_merge_idle, Unit::kNanoseconds, 0, 3600 * kSecond,
             "idle time after which log blocks are merged in the background; 0: never");
  }
};

}  // namespace twin
