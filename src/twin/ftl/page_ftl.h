// Page mapping: any unit lies anywhere. Writes go to open blocks, one on each die in turn; what they overwrite is
// garbage, which collection turns into free blocks again.
//
// Memory: 4 bytes a unit for the map, 4 bytes a place for its reverse and a bit for each place, all of it taken only
// where something has been written since the drive was made.
#pragma once

#include <cstdint>
#include <vector>

#include "core/event_queue.h"
#include "core/lazy_array.h"
#include "drive/parameters.h"
#include "flash/flash.h"
#include "ftl/block_pool.h"
#include "ftl/ftl.h"
#include "ftl/layout.h"
#include "ftl/mapping_cache.h"

namespace twin {

class PageFtl final : public Ftl, private EventHandler {
 public:
  // Throws std::invalid_argument for a geometry that cannot be mapped.
  PageFtl(const Parameters& parameters, EventQueue& events, FtlClient& client, Counters& counters);

  bool read(Nanoseconds now, std::uint64_t unit, std::uint32_t count, std::uint64_t size_bytes,
            std::uint64_t token) override;
  void write(Nanoseconds now, const std::uint64_t* units, std::uint32_t count, std::uint64_t token) override;
  void discard(Nanoseconds now, std::uint64_t unit, std::uint64_t count) override;
  void idle(Nanoseconds now, Nanoseconds since) override;
  [[nodiscard]] std::uint32_t program_units() const override { return shape_.row_units; }
  [[nodiscard]] std::uint32_t parallel_programs() const override { return shape_.dies; }
  void record(Nanoseconds now, Recorder& recorder) const override;

  // For tests: where a unit lies (block * block_units + place), kNoUnit when it is not mapped.
  [[nodiscard]] std::uint32_t place_of(std::uint32_t unit) const;
  [[nodiscard]] const BlockPool& blocks() const { return pool_; }
  [[nodiscard]] const BlockShape& shape() const { return shape_; }

 private:
  // A read on its way.
  struct ReadOperation {
    std::uint64_t token = 0;
    std::uint32_t pending = 0;
    std::uint32_t unit = 0, count = 0;  // while the map is read
    std::uint64_t size_bytes = 0;
  };

  // A row of a die being read for a read.
  struct Sensing {
    std::uint32_t operation = 0;
    std::uint32_t die = 0;
    std::uint64_t left_bytes = 0;  // not yet on the channel
  };

  // Blocks being filled, one a die; programs go to the dies in turn.
  struct Frontier {
    std::vector<std::uint32_t> block;  // by die
    std::vector<std::uint32_t> row;    // the next one of it
    std::uint64_t programs = 0;
  };

  void on_event(Nanoseconds now, std::uint64_t what) override;
  void read_data(Nanoseconds now, std::uint32_t operation);
  void sense(Nanoseconds now, std::uint32_t operation, std::uint32_t die, std::uint64_t size_bytes);
  void part_read(Nanoseconds now, std::uint32_t operation);
  void fetch_next(Nanoseconds now, std::uint32_t sensing);

  void unmap(std::uint32_t unit);
  [[nodiscard]] bool is_valid(std::uint32_t place) const;
  [[nodiscard]] std::uint32_t owner_of(std::uint32_t place) const;
  [[nodiscard]] std::uint32_t next_die(const Frontier& frontier) const;
  std::uint32_t open_row(Frontier& frontier, std::uint32_t die);
  void place_units(const std::uint32_t* units, std::uint32_t count, std::uint32_t first_place);

  void look_up(Nanoseconds now, std::uint64_t unit, std::uint64_t count, bool change, std::uint64_t& hits,
               std::uint64_t& misses);
  void collect(Nanoseconds now, std::uint32_t units);
  bool collect_row(Nanoseconds now);
  void erase_victim(Nanoseconds now);

  EventQueue& events_;
  FtlClient& client_;
  Counters& counters_;
  std::uint32_t unit_bytes_;
  std::uint32_t units_;
  BlockShape shape_;
  std::uint32_t start_collecting_;  // when fewer blocks are free than this
  std::uint32_t stop_collecting_;   // in the background: when as many are free
  bool collect_whole_blocks_;
  InitialLayout initial_;
  BlockPool pool_;
  Flash flash_;
  MappingCache cache_;
  LazyArray<std::uint32_t> map_;    // by unit: place + 2; 0: as in the beginning; 1: not mapped
  LazyArray<std::uint32_t> owner_;  // by place: unit + 1; 0: as in the beginning
  LazyArray<std::uint64_t> dead_;   // a bit for each place: overwritten, discarded or moved away
  Frontier host_, moved_;

  std::uint32_t victim_ = BlockPool::kNoBlock;
  std::uint32_t victim_place_ = 0;  // how far it has been gone through
  std::uint32_t victim_valid_ = 0;  // when it was taken
  std::int64_t owed_ = 0;           // what collection owes to the host's writes, in parts of free units
  std::vector<std::uint32_t> moving_;
  bool background_ = false;
  bool touched_ = false;  // by the host, since the last step in the background
  Nanoseconds gc_until_ = 0;

  std::vector<ReadOperation> operations_;
  std::vector<std::uint32_t> free_operations_;
  std::vector<Sensing> sensings_;
  std::vector<std::uint32_t> free_sensings_;
  struct Writing {
    std::uint64_t token;
    std::uint32_t count;
  };
  std::vector<Writing> writings_;
  std::vector<std::uint32_t> free_writings_;
  std::vector<std::uint32_t> map_pages_;  // those that a lookup has to read
};

}  // namespace twin
