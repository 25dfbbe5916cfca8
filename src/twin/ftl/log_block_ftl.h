// Hybrid mapping, as in drives of 2008: data blocks are mapped as a whole, overwrites go to a few page-mapped log
// blocks, and merges combine the two.
//
// A mapping block consists of `group` erase blocks on different dies, striped row by row (a row is a page on each plane
// of a die). A unit is a flash page.
//
// With blocks_per_log = 1, each log block serves one data block, and the log block written least recently is merged
// first (BAST: J. Kim et al., A space-efficient flash translation layer for CompactFlash systems, IEEE Trans. Consumer
// Electronics 48(2), 2002).
//
// With a larger blocks_per_log, overwrites share log blocks in order of arrival, and the oldest log block is merged
// first. One log block is reserved for a stream: the last sequence of writes that began at the start of a data block
// (FAST: S.-W. Lee et al., A log buffer-based flash translation layer using fully-associative sector translation, ACM
// TECS 6(3), 2007). A page of the stream's data block that arrives out of order goes to a shared log block; the stream
// continues.
//
// A log block is merged in one of three ways:
//   switch   It contains a complete data block in order. It becomes the data block, and the old data block is erased.
//   partial  It contains the beginning of a data block in order. The rest is copied into it; then as for switch.
//   full     For each data block with pages in the log block, the newest pages are copied to a free block. The old data
//            blocks and the log block are erased.
// switch_merges, partial_merges and full_merges count data blocks.
//
// The flash operations of a merge are reserved at once. The write that needs the log block is programmed after them.
// With spare_logs, merging begins when fewer log blocks are free; then a write takes a log block that has already been
// merged, and later operations find dies and channels busy.
//
// Pages of a block are programmed in order. If a copied block has unmapped pages before mapped ones, the unmapped pages
// are programmed as padding. A data block whose beginning alone is written takes the following pages directly.
//
// Initial states: fresh; sequential: filled data block by data block; random: like sequential, and every log block is
// full of pages with random offsets in filled data blocks all over the drive, so the first overwrite elsewhere needs a
// merge.
//
// Memory: 4 bytes and a bit for each unit and 4 bytes for each page of a log block, allocated only where something has
// been written, and some bytes for each mapping block.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "core/event_queue.h"
#include "core/lazy_array.h"
#include "core/slot_pool.h"
#include "flash/flash.h"
#include "ftl/ftl.h"
#include "ftl/layout.h"
#include "ftl/page_reader.h"

namespace twin {

class LogBlockFtl final : public Ftl, private EventHandler {
 public:
  // Throws std::invalid_argument, naming the parameter, for a geometry that cannot be mapped.
  LogBlockFtl(std::int64_t capacity_bytes, const FlashParameters& flash, const AgeingParameters& ageing,
              std::uint64_t seed, const FtlParameters& ftl, const LogMappingParameters& mapping, EventQueue& events,
              FtlClient& client, Counters& counters);

  bool read(Nanoseconds now, std::uint64_t unit, std::uint32_t count, std::uint64_t size_bytes,
            std::uint64_t token) override;
  void write(Nanoseconds now, std::span<const std::uint64_t> units, std::uint64_t token) override;
  void discard(Nanoseconds now, std::uint64_t unit, std::uint64_t count) override;
  void idle(Nanoseconds now) override;
  void record(Nanoseconds now, Recorder& recorder) const override;

  // The division of the flash. Unlike a block of BlockShape, a mapping block is on `group` dies.
  struct Shape {
    std::uint32_t dies = 1;
    std::uint32_t group = 1;
    std::uint32_t row_units = 1;
    std::uint32_t block_units = 1;
    std::uint32_t blocks = 1;       // mapping blocks in the flash
    std::uint32_t data_blocks = 1;  // mapping blocks in the capacity

    [[nodiscard]] std::uint32_t die_of(std::uint32_t page) const {
      return page / block_units % (dies / group) * group + page % block_units / row_units % group;
    }
  };

  // Returns the physical page (block * block_units + page of the block) of a unit's newest copy; kNoUnit if the unit is
  // not mapped.
  [[nodiscard]] std::uint32_t physical_page_of(std::uint32_t unit) const;
  [[nodiscard]] FlashPage flash_page_of(std::uint32_t page) const {
    return {shape_.die_of(page), page % shape_.block_units / shape_.row_units / shape_.group};
  }
  // For PageReader: consecutive pages of a row are read together.
  [[nodiscard]] bool reads_together(std::uint32_t page, std::uint32_t run, std::uint32_t next) const {
    return next == page + run && next % shape_.row_units != 0;
  }
  // Returns the unit whose newest copy is on a physical page; kNoUnit if there is none.
  [[nodiscard]] std::uint32_t unit_at(std::uint32_t page) const;
  // For tests.
  [[nodiscard]] std::uint32_t valid(std::uint32_t block) const { return blocks_[block].valid; }
  [[nodiscard]] std::uint32_t erase_count(std::uint32_t block) const { return blocks_[block].erases; }
  [[nodiscard]] const Shape& shape() const { return shape_; }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  enum class Use : std::uint8_t { kFree, kData, kLog };

  // A mapping block of the flash.
  struct Block {
    std::uint32_t serves = 0;  // number of its data block or of its log
    std::uint32_t filled = 0;  // units programmed, from the first on
    std::uint32_t valid = 0;
    std::uint32_t erases = 0;
    Nanoseconds programmed = 0;  // when all programmed units are in the array
    Use use = Use::kFree;
    bool discarded = false;  // whether the last valid unit of this data block was discarded
  };

  // A log block and the data blocks that it serves.
  struct Log {
    std::uint32_t block = kNone;
    std::uint32_t first = 0;    // data block of its first page
    std::uint32_t sharers = 0;  // number of data blocks that it serves
    bool in_order = true;       // whether each page is at its offset in the data block
    std::uint64_t opened = 0, written = 0;
    Nanoseconds ready = 0;  // when the merges that make room for it are complete
  };

  // A block of the logical space.
  struct DataBlock {
    std::uint32_t block = kNone;
    std::uint32_t log = kNone;  // log of its last overwrite that was out of order
  };

  // Pages of one row that a write of the host programs together.
  struct Run {
    std::uint32_t page = 0;
    std::uint32_t count = 0;
    Nanoseconds ready = 0;
  };

  void fill_initially(InitialState state, std::uint32_t units);
  void fill_logs(std::uint32_t data_blocks);

  void on_event(Nanoseconds now, std::uint64_t what) override;

  [[nodiscard]] std::uint32_t units_of(std::uint32_t data_block) const;
  [[nodiscard]] bool is_invalid(std::uint32_t unit) const { return (invalid_[unit / 64] >> (unit % 64) & 1) != 0; }
  void set_invalid(std::uint32_t unit, bool invalid);
  void unmap(std::uint32_t unit);

  void append(Nanoseconds now, std::uint32_t unit);
  void map_to_next_page(std::uint32_t unit, std::uint32_t block);
  void program_run();
  std::uint32_t block_for(Nanoseconds now, std::uint32_t unit, Nanoseconds& ready);
  [[nodiscard]] std::uint32_t unused_log() const;
  void assign(std::uint32_t block, Use use, std::uint32_t serves) {
    blocks_[block].use = use;
    blocks_[block].serves = serves;
  }
  std::uint32_t open_log(std::uint32_t number, std::uint32_t data_block, Nanoseconds ready);
  std::uint32_t take_free();
  Nanoseconds erase(Nanoseconds now, std::uint32_t block);

  [[nodiscard]] bool is_prefix(const Log& log) const;
  [[nodiscard]] std::uint32_t first_shared() const { return blocks_per_log_ > 1 ? 1 : 0; }
  [[nodiscard]] std::uint32_t oldest_log(bool include_growing) const;
  void merge_ahead(Nanoseconds now);
  Nanoseconds merge(Nanoseconds now, std::uint32_t number);
  Nanoseconds take_over(Nanoseconds now, std::uint32_t number);
  Nanoseconds full_merge(Nanoseconds now, std::uint32_t data_block);
  Nanoseconds replace_data_block(Nanoseconds now, std::uint32_t data_block, std::uint32_t block);
  Nanoseconds copy(Nanoseconds now, std::uint32_t data_block, std::uint32_t from, std::uint32_t target);
  void close_log(std::uint32_t number);

  EventQueue& events_;
  FtlClient& client_;
  Counters& counters_;
  std::uint64_t unit_bytes_;
  std::uint32_t units_;
  std::uint32_t blocks_per_log_;
  std::uint32_t spare_logs_;
  Shape shape_;
  Flash flash_;
  PageReader reader_;
  std::vector<Block> blocks_;
  std::vector<DataBlock> data_;
  std::deque<std::uint32_t> free_;  // in order of erasure; the block erased first is taken first
  std::vector<Log> logs_;           // if logs are shared, logs_[0] is the log of the stream
  std::uint32_t sharing_ = kNone;   // log opened last, if it is shared
  // By unit: its physical page in a log block + 1; 0 if its newest copy is not in a log block.
  LazyArray<std::uint32_t> in_log_;
  LazyArray<std::uint32_t> log_p2l_;  // by log and page of its block: unit
  LazyArray<std::uint64_t> invalid_;  // one bit for each unit: its copy in the data block is not the newest
  std::uint64_t turn_ = 0;            // counts opened logs and written units, for the age of logs
  Run run_;
  Nanoseconds written_until_ = 0;
  bool background_ = false;  // whether a background merge is scheduled
  bool touched_ = false;     // whether the host has used the drive since the last background merge

  SlotPool<std::uint64_t> writes_;  // tokens of writes that are being programmed
};

}  // namespace twin
