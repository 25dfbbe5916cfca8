// Page mapping: a unit can be stored on any physical page. Writes go to open blocks, one on each die in turn. Pages
// whose unit is overwritten become invalid. Garbage collection moves the valid units of a block and erases the block.
//
// A physical page is the space of one mapping unit, which may be a part of a flash page. Memory: 4 bytes for each unit
// (logical to physical), 4 bytes for each physical page (physical to logical) and a bit for each physical page
// (invalid), allocated only where something has been written since the drive was created.
#pragma once

#include <cstdint>
#include <vector>

#include "core/event_queue.h"
#include "core/lazy_array.h"
#include "core/slot_pool.h"
#include "flash/flash.h"
#include "ftl/block_pool.h"
#include "ftl/ftl.h"
#include "ftl/layout.h"
#include "ftl/mapping_cache.h"
#include "ftl/page_reader.h"

namespace twin {

class PageFtl final : public Ftl, private EventHandler {
 public:
  // Throws std::invalid_argument, naming the parameter, for a geometry that cannot be mapped.
  PageFtl(std::int64_t capacity_bytes, const FlashParameters& flash, const AgeingParameters& ageing, std::uint64_t seed,
          const FtlParameters& ftl, const PageMappingParameters& mapping, EventQueue& events, FtlClient& client,
          Counters& counters);

  bool read(Nanoseconds now, std::uint64_t unit, std::uint32_t count, std::uint64_t size_bytes,
            std::uint64_t token) override;
  void write(Nanoseconds now, std::span<const std::uint64_t> units, std::uint64_t token) override;
  void discard(Nanoseconds now, std::uint64_t unit, std::uint64_t count) override;
  void idle(Nanoseconds now) override;
  void record(Nanoseconds now, Recorder& recorder) const override;

  // Returns the physical page of a unit (numbered as in BlockShape); kNoUnit if the unit is not mapped.
  [[nodiscard]] std::uint32_t physical_page_of(std::uint32_t unit) const;
  [[nodiscard]] FlashPage flash_page_of(std::uint32_t page) const {
    return {shape_.die_of(page / shape_.block_units()), page % shape_.block_units() / shape_.row_units};
  }
  // For PageReader: units in the same row of a die are read together.
  [[nodiscard]] bool reads_together(std::uint32_t page, std::uint32_t, std::uint32_t next) const {
    return next / shape_.row_units == page / shape_.row_units;
  }
  // For tests.
  [[nodiscard]] const BlockPool& blocks() const { return pool_; }
  [[nodiscard]] const BlockShape& shape() const { return shape_; }

 private:
  // A read that waits for pages of the map.
  struct MapRead {
    std::uint32_t operation = 0;
    std::uint32_t unit = 0, count = 0;
    std::uint64_t size_bytes = 0;
  };

  // A write() whose units are being programmed.
  struct Program {
    std::uint64_t token = 0;
    std::uint32_t die = 0;
    Nanoseconds postponed = 0;  // Flash::postponed_ns() when the program's end was last computed
  };

  // The blocks that are being filled, one on each die. Programs go to the dies in turn.
  struct Frontier {
    explicit Frontier(std::uint32_t dies) : block(dies, BlockPool::kNoBlock), row(dies) {}

    std::vector<std::uint32_t> block;  // by die
    std::vector<std::uint32_t> row;    // by die: next row of its block
    std::uint64_t programs = 0;
    std::uint64_t erased_rows = 0;  // erased rows in all these blocks
  };

  void on_event(Nanoseconds now, std::uint64_t what) override;

  void unmap(std::uint32_t unit);
  [[nodiscard]] bool is_valid(std::uint32_t page) const;
  [[nodiscard]] std::uint32_t unit_at(std::uint32_t page) const;
  [[nodiscard]] std::uint32_t next_die(const Frontier& frontier) const;
  std::uint32_t open_row(Frontier& frontier, std::uint32_t die);
  FlashPage map_row(Frontier& frontier, std::uint32_t die);

  void look_up(Nanoseconds now, std::uint64_t unit, std::uint64_t count, bool change, std::uint64_t& hits,
               std::uint64_t& misses);
  Nanoseconds read_map_pages(Nanoseconds now);
  [[nodiscard]] std::uint64_t erased_units() const;
  void collect(Nanoseconds now);
  bool collect_row(Nanoseconds now, std::uint32_t least_garbage);
  bool take_victim(std::uint32_t least_garbage);
  bool gather(Nanoseconds now);
  void erase(Nanoseconds now, std::uint32_t block);

  EventQueue& events_;
  FtlClient& client_;
  Counters& counters_;
  std::uint64_t unit_bytes_;
  std::uint32_t units_;
  BlockShape shape_;
  std::uint64_t row_bytes_;
  std::uint64_t start_collecting_;  // foreground collection runs while fewer units are erased
  std::uint64_t stop_collecting_;   // background collection runs while fewer units are erased
  bool collect_whole_blocks_;
  InitialLayout initial_;
  BlockPool pool_;
  Flash flash_;
  PageReader reader_;
  MappingCache cache_;
  LazyArray<std::uint32_t> l2p_;      // logical to physical, by unit: page + 2; 0: initial page; 1: not mapped
  LazyArray<std::uint32_t> p2l_;      // physical to logical, by page: unit + 1; 0: initial unit
  LazyArray<std::uint64_t> invalid_;  // one bit for each physical page: overwritten, discarded or moved
  Frontier host_frontier_, gc_frontier_;

  std::uint32_t victim_ = BlockPool::kNoBlock;  // block being collected
  std::uint32_t victim_page_ = 0;               // next of its pages to look at
  std::uint32_t victim_valid_ = 0;              // its valid units when it was chosen
  std::int64_t debt_ = 0;               // units that foreground collection still has to reclaim, in 1/1024 units
  std::vector<std::uint32_t> moving_;   // units on their way to another block
  std::vector<std::uint32_t> emptied_;  // blocks to erase after these units have been moved
  bool background_ = false;             // whether a step of background collection is scheduled
  bool touched_ = false;                // whether the host has used the drive since the last such step
  Nanoseconds gc_until_ = 0;

  SlotPool<MapRead> map_reads_;
  SlotPool<Program> programs_;
  std::vector<std::uint32_t> map_pages_;  // pages of the map that a lookup has to read
};

}  // namespace twin
