// Written data between host and flash: which units, in which order they go to flash, and which streams they belong to.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/controller_parameters.h"
#include "controller/unit_table.h"
#include "core/slot_pool.h"

namespace twin {

// A unit written again before it has left is kept once. Units leave in the order in which they came.
class WriteBuffer {
 public:
  // `batch_units` and `batches`: how many units a write to flash holds, and how many such writes may be outstanding.
  WriteBuffer(const WriteBufferParameters& parameters, std::uint64_t unit_bytes, std::uint32_t batch_units,
              std::uint32_t batches);

  // Whether the unit's newest data are here, waiting or being programmed.
  [[nodiscard]] bool holds(std::uint64_t unit) { return !table_.empty() && table_.find(unit) != nullptr; }

  // Takes a unit's data; false when there is no room.
  bool take(std::uint64_t unit);

  // Gives up the data of the units from `first` to before `end` that wait here: they need not go to flash any more.
  void forget_all(std::uint64_t first, std::uint64_t end);

  // Whether a write at `offset_bytes` goes on where one of the buffer's streams has stopped; the stream moves on.
  bool continues_stream(std::uint64_t offset_bytes, std::uint64_t size_bytes);

  [[nodiscard]] std::uint64_t waiting_units() const { return waiting_; }
  [[nodiscard]] bool batch_free() const { return batches_.in_use() < most_batches_; }

  // Takes up to a batch of waiting units out, in order; returns its number, and the units. There must be a free batch
  // and a waiting unit.
  std::uint32_t begin_batch(std::vector<std::uint64_t>& units);

  // The units of the batch are in flash.
  void end_batch(std::uint32_t batch);

  // Units taken, and units that have left, since the beginning: for flushes.
  [[nodiscard]] std::uint64_t taken() const { return taken_; }
  [[nodiscard]] std::uint64_t left() const { return left_; }

 private:
  void forget(std::uint64_t unit);

  // States of a unit in the table: bits.
  static constexpr std::uint32_t kWaiting = 1;
  static constexpr std::uint32_t kForgotten = 2;  // its entry in the queue is to be skipped
  static constexpr std::uint32_t kInFlight = 4;   // counted from here on: how many batches hold it

  struct Stream {
    std::uint64_t next_bytes = ~0ULL;
    std::uint64_t used = 0;
  };

  std::uint64_t capacity_;
  std::uint64_t occupied_ = 0;
  std::uint64_t waiting_ = 0;
  std::uint64_t taken_ = 0, left_ = 0;
  UnitTable table_;
  std::vector<std::uint64_t> queue_;  // ring of units in the order of arrival
  std::uint64_t queue_first_ = 0, queue_last_ = 0;
  SlotPool<std::vector<std::uint64_t>> batches_;
  std::uint32_t batch_units_;
  std::uint32_t most_batches_;
  std::vector<Stream> streams_;
  std::uint64_t clock_ = 0;
};

}  // namespace twin
