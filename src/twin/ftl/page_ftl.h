// Page mapping: a unit can lie on any physical page. Writes go to open blocks, one on each die in turn. The pages that
// they overwrite become invalid; garbage collection moves what is still valid in a block, and erases the block.
//
// Memory: 4 bytes for each unit (logical to physical), 4 bytes for each physical page (physical to logical) and a bit
// for each physical page (invalid). All of it is taken only where something has been written since the drive was made.
// A physical page here is the room of one mapping unit, which may be a part of a flash page.
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
  // Throws std::invalid_argument for a geometry that cannot be mapped.
  PageFtl(std::int64_t capacity_bytes, const FlashParameters& flash, const AgeingParameters& ageing, std::uint64_t seed,
          const FtlParameters& ftl, const PageMappingParameters& mapping, EventQueue& events, FtlClient& client,
          Counters& counters);

  bool read(Nanoseconds now, std::uint64_t unit, std::uint32_t count, std::uint64_t size_bytes,
            std::uint64_t token) override;
  void write(Nanoseconds now, const std::uint64_t* units, std::uint32_t count, std::uint64_t token) override;
  void discard(Nanoseconds now, std::uint64_t unit, std::uint64_t count) override;
  void idle(Nanoseconds now, Nanoseconds since) override;
  [[nodiscard]] std::uint32_t unit_bytes() const override { return unit_bytes_; }
  [[nodiscard]] std::uint32_t page_units() const override { return shape_.row_units / planes_; }
  [[nodiscard]] Nanoseconds background_idle() const override { return background_idle_; }
  [[nodiscard]] std::uint32_t program_units() const override { return shape_.row_units; }
  [[nodiscard]] std::uint32_t parallel_programs() const override { return shape_.dies; }
  void record(Nanoseconds now, Recorder& recorder) const override;

  // For tests: the physical page of a unit (block * block_units + page of the block), kNoUnit when it is not mapped.
  [[nodiscard]] std::uint32_t physical_page_of(std::uint32_t unit) const;
  [[nodiscard]] const BlockPool& blocks() const { return pool_; }
  [[nodiscard]] const BlockShape& shape() const { return shape_; }

 private:
  // A read that waits until the pages of the map that it needs are in memory.
  struct MapRead {
    std::uint32_t operation = 0;
    std::uint32_t unit = 0, count = 0;
    std::uint64_t size_bytes = 0;
  };

  // A write() whose units are being programmed.
  struct Program {
    std::uint64_t token = 0;
    std::uint32_t count = 0;
    std::uint32_t die = 0;
    Nanoseconds postponed = 0;  // by reads of the host, when the program's end was computed last
  };

  // Blocks being filled, one a die; programs go to the dies in turn.
  struct Frontier {
    std::vector<std::uint32_t> block;  // by die
    std::vector<std::uint32_t> row;    // the next one of it
    std::uint64_t programs = 0;
    std::uint64_t erased_rows = 0;  // of all these blocks
  };

  void on_event(Nanoseconds now, std::uint64_t what) override;
  void read_data(Nanoseconds now, const MapRead& data);

  void unmap(std::uint32_t unit);
  [[nodiscard]] bool is_valid(std::uint32_t page) const;
  [[nodiscard]] std::uint32_t unit_at(std::uint32_t page) const;
  [[nodiscard]] FlashPage flash_page_of(std::uint32_t page) const {
    return {shape_.die_of(page / shape_.block_units()), page % shape_.block_units() / shape_.row_units};
  }
  [[nodiscard]] std::uint32_t next_die(const Frontier& frontier) const;
  std::uint32_t open_row(Frontier& frontier, std::uint32_t die);
  void map_row(const std::uint32_t* units, std::uint32_t count, std::uint32_t first_page);

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
  std::uint32_t unit_bytes_;
  std::uint32_t units_;
  BlockShape shape_;
  std::uint32_t planes_;
  Nanoseconds background_idle_;
  std::uint64_t start_collecting_;  // when fewer units are erased than this
  std::uint64_t stop_collecting_;   // in the background: when as many are erased
  bool collect_whole_blocks_;
  InitialLayout initial_;
  BlockPool pool_;
  Flash flash_;
  PageReader reader_;
  MappingCache cache_;
  LazyArray<std::uint32_t> l2p_;      // logical to physical, by unit: page + 2; 0: as in the beginning; 1: not mapped
  LazyArray<std::uint32_t> p2l_;      // physical to logical, by page: unit + 1; 0: as in the beginning
  LazyArray<std::uint64_t> invalid_;  // a bit for each physical page: overwritten, discarded or moved away
  Frontier host_frontier_, gc_frontier_;

  std::uint32_t victim_ = BlockPool::kNoBlock;
  std::uint32_t victim_page_ = 0;       // the next of its pages to be looked at
  std::uint32_t victim_valid_ = 0;      // its valid units when it was chosen
  std::int64_t debt_ = 0;               // units that foreground GC has still to reclaim, in 1/1024 units
  std::vector<std::uint32_t> moving_;   // units on their way to another block
  std::vector<std::uint32_t> emptied_;  // blocks to be erased then
  bool background_ = false;
  bool touched_ = false;  // by the host, since the last step in the background
  Nanoseconds gc_until_ = 0;

  SlotPool<MapRead> map_reads_;
  SlotPool<Program> programs_;
  std::vector<std::uint32_t> map_pages_;  // those that a lookup has to read
};

}  // namespace twin
