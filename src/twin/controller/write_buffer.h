// The write buffer: which units it contains, in which order they go to flash, and which sequential streams wrote them.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "controller/controller_parameters.h"
#include "controller/unit_table.h"
#include "core/slot_pool.h"

namespace twin {

// Units go to flash in batches, in order of arrival. A unit that is written again while it waits is stored only once.
class WriteBuffer {
 public:
  // `batch_units` is the number of units in a write to flash, `batches` the number of such writes that may be
  // outstanding.
  WriteBuffer(const WriteBufferParameters& parameters, std::uint64_t unit_bytes, std::uint32_t batch_units,
              std::uint32_t batches);

  // Returns whether the newest data of a unit are in the buffer, waiting or being programmed.
  [[nodiscard]] bool contains(std::uint64_t unit) { return !table_.empty() && table_.find(unit) != nullptr; }

  // Adds the data of a unit. Returns false if there is no space.
  bool add(std::uint64_t unit);

  // Drops the waiting data of the units from `first` to before `end`. They do not go to flash.
  void drop_range(std::uint64_t first, std::uint64_t end);

  // Returns whether a write continues one of the sequential streams that the buffer follows. If not, a new stream
  // replaces the least recently used one.
  bool continues_stream(std::uint64_t offset_bytes, std::uint64_t size_bytes);

  [[nodiscard]] std::uint64_t waiting_units() const { return waiting_; }
  [[nodiscard]] bool can_begin_batch() const { return batches_.in_use() < max_batches_; }

  // Takes up to `batch_units` waiting units out, in order, and stores them in `units`. Returns the number of the batch.
  // can_begin_batch() must be true, and at least one unit must wait.
  std::uint32_t begin_batch(std::vector<std::uint64_t>& units);

  // Removes the units of a batch, which are in flash.
  void end_batch(std::uint32_t batch);

  // The numbers of units added and removed since the drive was created, for flushes.
  [[nodiscard]] std::uint64_t units_added() const { return added_; }
  [[nodiscard]] std::uint64_t units_removed() const { return removed_; }

 private:
  void drop(std::uint64_t unit);

  // State of a unit in the table, as bits.
  static constexpr std::uint32_t kWaiting = 1;
  static constexpr std::uint32_t kDropped = 2;   // its entry in the queue is to be skipped
  static constexpr std::uint32_t kInFlight = 4;  // this bit and the higher ones count the batches with this unit

  struct Stream {
    std::uint64_t next_bytes = ~0ULL;
    std::uint64_t last_use = 0;
  };

  std::uint64_t capacity_;
  std::uint64_t occupied_ = 0;
  std::uint64_t waiting_ = 0;
  std::uint64_t added_ = 0, removed_ = 0;
  UnitTable table_;
  std::deque<std::uint64_t> queue_;  // units in order of arrival
  SlotPool<std::vector<std::uint64_t>> batches_;
  std::uint32_t batch_units_;
  std::uint32_t max_batches_;
  std::vector<Stream> streams_;
  std::uint64_t use_clock_ = 0;  // counts writes, for least-recently-used replacement
};

}  // namespace twin
