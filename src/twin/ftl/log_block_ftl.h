// Hybrid mapping: data blocks are mapped as a whole, overwrites go to a few page-mapped log blocks, and merges bring
// the two together again. The drives of 2008.
//
// A mapping block is `group` erase blocks on different dies, striped row by row (a row is a page on each plane of a
// die); a unit is a flash page. With blocks_per_log = 1 a log block serves one data block, and the one written least
// recently makes room (BAST: J. Kim et al., A space-efficient flash translation layer for CompactFlash systems, IEEE
// Trans. Consumer Electronics 48(2), 2002). With more, overwrites share log blocks in the order in which they come, the
// oldest log block makes room, and one log block takes the stream that began last at the start of a data block (FAST:
// S.-W. Lee et al., A log buffer-based flash translation layer using fully-associative sector translation, ACM TECS
// 6(3), 2007). A page of that stream's block that comes out of order goes to a shared log and leaves the stream as it
// is.
//
// A log block is merged in one of three ways:
//   switch   it holds a data block completely and in order: it becomes the data block, the old one is erased;
//   partial  it holds the beginning in order: the rest is copied into it, then as above;
//   full     the newest pages of each data block it has pages of are copied to a free block, the old data blocks and
//            the log block are erased.
// switch_merges, partial_merges and full_merges count data blocks. A merge's flash operations are reserved at once; the
// write that needs the log block is programmed after them. With spare_logs, merging begins as soon as fewer log blocks
// are free: a write takes one that has been merged before, and what comes next finds dies and channels busy. Pages of a
// block are programmed in order, so pages that are not mapped and have mapped ones behind them are programmed as
// padding when a block is copied. A data block of which only the beginning is written takes the pages that come next
// directly.
//
// Initial states: fresh; sequential, data block by data block; random, which is sequential with every log block full of
// pages of random offsets in data blocks spread over the drive, so that the first overwrite elsewhere has to merge.
//
// Memory: 4 bytes and a bit for each unit and 4 bytes for each page of a log block, taken only where something has been
// written, and some bytes for each mapping block.
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
  // Throws std::invalid_argument for a geometry that cannot be mapped.
  LogBlockFtl(std::int64_t capacity_bytes, const FlashParameters& flash, const AgeingParameters& ageing,
              std::uint64_t seed, const FtlParameters& ftl, const LogMappingParameters& mapping, EventQueue& events,
              FtlClient& client, Counters& counters);

  bool read(Nanoseconds now, std::uint64_t unit, std::uint32_t count, std::uint64_t size_bytes,
            std::uint64_t token) override;
  void write(Nanoseconds now, const std::uint64_t* units, std::uint32_t count, std::uint64_t token) override;
  void discard(Nanoseconds now, std::uint64_t unit, std::uint64_t count) override;
  void idle(Nanoseconds now, Nanoseconds since) override;
  [[nodiscard]] std::uint32_t unit_bytes() const override { return static_cast<std::uint32_t>(unit_bytes_); }
  [[nodiscard]] std::uint32_t page_units() const override { return 1; }
  [[nodiscard]] Nanoseconds background_idle() const override { return merge_idle_; }
  [[nodiscard]] std::uint32_t program_units() const override { return shape_.row_units; }
  [[nodiscard]] std::uint32_t parallel_programs() const override { return shape_.dies; }
  void record(Nanoseconds now, Recorder& recorder) const override;

  // How the flash is divided: unlike a block of BlockShape, a mapping block lies on `group` dies.
  struct Shape {
    std::uint32_t dies = 1;
    std::uint32_t group = 1;
    std::uint32_t row_units = 1;
    std::uint32_t block_units = 1;
    std::uint32_t blocks = 1;       // of the flash
    std::uint32_t data_blocks = 1;  // of the capacity

    [[nodiscard]] std::uint32_t die_of(std::uint32_t page) const {
      return page / block_units % (dies / group) * group + page % block_units / row_units % group;
    }
    [[nodiscard]] FlashPage flash_page_of(std::uint32_t page) const {
      return {die_of(page), page % block_units / row_units / group};
    }
  };

  // For tests: where the newest copy of a unit lies (block * block_units + page of the block), kNoUnit when it is not
  // mapped; and the reverse, kNoUnit for a physical page that does not hold a unit's newest copy.
  [[nodiscard]] std::uint32_t physical_page_of(std::uint32_t unit) const;
  [[nodiscard]] std::uint32_t unit_at(std::uint32_t page) const;
  [[nodiscard]] std::uint32_t valid(std::uint32_t block) const { return blocks_[block].valid; }
  [[nodiscard]] std::uint32_t erase_count(std::uint32_t block) const { return blocks_[block].erases; }
  [[nodiscard]] std::uint32_t free_blocks() const { return static_cast<std::uint32_t>(free_.size()); }
  [[nodiscard]] const Shape& shape() const { return shape_; }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  enum class Use : std::uint8_t { kFree, kData, kLog };

  // A mapping block of the flash.
  struct Block {
    std::uint32_t serves = 0;  // the data block, or the log's number
    std::uint32_t filled = 0;  // units programmed, from the first on
    std::uint32_t valid = 0;
    std::uint32_t erases = 0;
    Nanoseconds programmed = 0;  // when the last of them is in the array
    Use use = Use::kFree;
    bool discarded = false;  // the last valid unit of this data block has been discarded
  };

  struct Log {
    std::uint32_t block = kNone;
    std::uint32_t first = 0;    // the data block of its first page
    std::uint32_t sharers = 0;  // data blocks that it serves
    bool in_order = true;       // each page lies where it would lie in its data block
    std::uint64_t opened = 0, written = 0;
    Nanoseconds ready = 0;  // the merges that made room for it are over, or will be for the next one
  };

  // A block of the logical space.
  struct DataBlock {
    std::uint32_t block = kNone;
    std::uint32_t log = kNone;  // the one that took its last overwrite out of order
  };

  // Pages of one row that the host's write programs together.
  struct Run {
    std::uint32_t page = 0;
    std::uint32_t count = 0;
    Nanoseconds ready = 0;
  };

  // A write() whose units are being programmed.
  struct Program {
    std::uint64_t token = 0;
    std::uint32_t count = 0;
  };

  void fill_initially(InitialState state);
  void fill_logs();

  void on_event(Nanoseconds now, std::uint64_t what) override;

  [[nodiscard]] std::uint32_t units_of(std::uint32_t data_block) const;
  [[nodiscard]] bool is_invalid(std::uint32_t unit) const { return (invalid_[unit / 64] >> (unit % 64) & 1) != 0; }
  void set_invalid(std::uint32_t unit, bool invalid);
  void unmap(std::uint32_t unit);

  void append(Nanoseconds now, std::uint32_t unit);
  void put(std::uint32_t unit, std::uint32_t block);
  void program_run();
  std::uint32_t block_for(Nanoseconds now, std::uint32_t unit, Nanoseconds& ready);
  [[nodiscard]] std::uint32_t unused_log() const;
  std::uint32_t open_log(std::uint32_t number, std::uint32_t data_block, Nanoseconds ready);
  std::uint32_t take_free();
  Nanoseconds erase(Nanoseconds now, std::uint32_t block);

  [[nodiscard]] bool is_prefix(const Log& log) const;
  [[nodiscard]] std::uint32_t first_shared() const { return blocks_per_log_ > 1 ? 1 : 0; }
  [[nodiscard]] std::uint32_t oldest_log(bool growing_too) const;
  void merge_ahead(Nanoseconds now);
  Nanoseconds merge(Nanoseconds now, std::uint32_t number);
  Nanoseconds take_over(Nanoseconds now, std::uint32_t number);
  Nanoseconds full_merge(Nanoseconds now, std::uint32_t data_block);
  Nanoseconds copy(Nanoseconds now, std::uint32_t data_block, std::uint32_t from, std::uint32_t target);
  void close_log(std::uint32_t number);

  EventQueue& events_;
  FtlClient& client_;
  Counters& counters_;
  std::uint64_t unit_bytes_;
  std::uint32_t units_;
  std::uint32_t blocks_per_log_;
  std::uint32_t spare_logs_;
  Nanoseconds merge_idle_;
  Shape shape_;
  Flash flash_;
  PageReader reader_;
  std::vector<Block> blocks_;
  std::vector<DataBlock> data_;
  std::deque<std::uint32_t> free_;  // the one erased first is taken first
  std::vector<Log> logs_;           // where logs are shared, the first is that of the stream
  std::uint32_t sharing_ = kNone;   // the log opened last, if it is shared
  LazyArray<std::uint32_t>
      in_log_;  // by unit: its physical page in a log block + 1; 0 when its newest copy is in no log
  LazyArray<std::uint32_t> log_p2l_;  // by log and page of its block: the unit
  LazyArray<std::uint64_t> invalid_;  // a bit for each unit: its copy in the data block is not the newest
  std::uint64_t turn_ = 0;
  Run run_;
  Nanoseconds written_until_ = 0;
  bool background_ = false;
  bool touched_ = false;  // by the host, since the last merge in the background

  SlotPool<Program> programs_;
};

}  // namespace twin
