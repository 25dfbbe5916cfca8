// Units in the write buffer, their order, and the sequential streams among the writes.
#include "controller/write_buffer.h"

#include <algorithm>

namespace twin {

WriteBuffer::WriteBuffer(const WriteBufferParameters& parameters, std::uint64_t unit_bytes, std::uint32_t batch_units,
                         std::uint32_t batches)
    : capacity_(static_cast<std::uint64_t>(parameters.size) / unit_bytes),
      table_(capacity_),
      queue_(capacity_ + 1),
      batch_units_(batch_units),
      most_batches_(batches),
      streams_(static_cast<std::size_t>(parameters.segments)) {}

bool WriteBuffer::take(std::uint64_t unit) {
  std::uint32_t* state = table_.find(unit);
  if (state != nullptr && (*state & kWaiting) != 0) {
    if ((*state & kForgotten) != 0) ++waiting_;  // it is still in the queue
    *state &= ~kForgotten;
    return true;
  }
  if (occupied_ == capacity_) return false;
  if (state != nullptr) {
    *state |= kWaiting;
  } else {
    table_.insert(unit, kWaiting);
  }
  queue_[queue_last_ % queue_.size()] = unit;
  ++queue_last_;
  ++occupied_;
  ++waiting_;
  ++taken_;
  return true;
}

void WriteBuffer::forget_all(std::uint64_t first, std::uint64_t end) {
  if (end - first < queue_last_ - queue_first_) {
    for (std::uint64_t unit = first; unit < end; ++unit) forget(unit);
    return;
  }
  for (std::uint64_t index = queue_first_; index < queue_last_; ++index) {
    const std::uint64_t unit = queue_[index % queue_.size()];
    if (unit >= first && unit < end) forget(unit);
  }
}

void WriteBuffer::forget(std::uint64_t unit) {
  std::uint32_t* state = table_.find(unit);
  if (state == nullptr || (*state & kWaiting) == 0 || (*state & kForgotten) != 0) return;
  *state |= kForgotten;
  --waiting_;
}

bool WriteBuffer::continues_stream(std::uint64_t offset_bytes, std::uint64_t size_bytes) {
  ++clock_;
  Stream* oldest = &streams_.front();
  for (Stream& stream : streams_) {
    if (stream.next_bytes == offset_bytes) {
      stream = {offset_bytes + size_bytes, clock_};
      return true;
    }
    if (stream.used < oldest->used) oldest = &stream;
  }
  *oldest = {offset_bytes + size_bytes, clock_};
  return false;
}

std::uint32_t WriteBuffer::begin_batch(std::vector<std::uint64_t>& units) {
  const std::uint32_t batch = batches_.take_as_left();
  units.clear();
  while (queue_first_ != queue_last_ && units.size() < batch_units_) {
    const std::uint64_t unit = queue_[queue_first_ % queue_.size()];
    ++queue_first_;
    std::uint32_t* state = table_.find(unit);
    if ((*state & kForgotten) != 0) {
      *state &= ~(kWaiting | kForgotten);
      --occupied_;
      ++left_;
      if (*state == 0) table_.erase(unit);
      continue;
    }
    *state = (*state & ~kWaiting) + kInFlight;
    --waiting_;
    units.push_back(unit);
  }
  batches_[batch] = units;
  return batch;
}

void WriteBuffer::end_batch(std::uint32_t batch) {
  for (const std::uint64_t unit : batches_[batch]) {
    std::uint32_t* state = table_.find(unit);
    *state -= kInFlight;
    if (*state == 0) table_.erase(unit);
  }
  occupied_ -= batches_[batch].size();
  left_ += batches_[batch].size();
  batches_.release(batch);
}

}  // namespace twin
