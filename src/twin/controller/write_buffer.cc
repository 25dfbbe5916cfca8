// The units in the write buffer, their order, and the sequential streams.
#include "controller/write_buffer.h"

namespace twin {

WriteBuffer::WriteBuffer(const WriteBufferParameters& parameters, std::uint64_t unit_bytes, std::uint32_t batch_units,
                         std::uint32_t batches)
    : capacity_(static_cast<std::uint64_t>(parameters.size) / unit_bytes),
      table_(capacity_),
      batch_units_(batch_units),
      max_batches_(batches),
      streams_(static_cast<std::size_t>(parameters.segments)) {}

bool WriteBuffer::add(std::uint64_t unit) {
  std::uint32_t* state = table_.find(unit);
  if (state != nullptr && (*state & kWaiting) != 0) {
    if ((*state & kDropped) != 0) ++waiting_;  // its entry is still in the queue
    *state &= ~kDropped;
    return true;
  }
  if (occupied_ == capacity_) return false;
  if (state != nullptr) {
    *state |= kWaiting;
  } else {
    table_.insert(unit, kWaiting);
  }
  queue_.push_back(unit);
  ++occupied_;
  ++waiting_;
  ++added_;
  return true;
}

void WriteBuffer::drop_range(std::uint64_t first, std::uint64_t end) {
  if (end - first < queue_.size()) {
    for (std::uint64_t unit = first; unit < end; ++unit) drop(unit);
    return;
  }
  for (const std::uint64_t unit : queue_) {
    if (unit >= first && unit < end) drop(unit);
  }
}

void WriteBuffer::drop(std::uint64_t unit) {
  std::uint32_t* state = table_.find(unit);
  if (state == nullptr || (*state & kWaiting) == 0 || (*state & kDropped) != 0) return;
  *state |= kDropped;
  --waiting_;
}

bool WriteBuffer::continues_stream(std::uint64_t offset_bytes, std::uint64_t size_bytes) {
  ++use_clock_;
  Stream* oldest = &streams_.front();
  for (Stream& stream : streams_) {
    if (stream.next_bytes == offset_bytes) {
      stream = {offset_bytes + size_bytes, use_clock_};
      return true;
    }
    if (stream.last_use < oldest->last_use) oldest = &stream;
  }
  *oldest = {offset_bytes + size_bytes, use_clock_};
  return false;
}

std::uint32_t WriteBuffer::begin_batch(std::vector<std::uint64_t>& units) {
  units.clear();
  while (!queue_.empty() && units.size() < batch_units_) {
    const std::uint64_t unit = queue_.front();
    queue_.pop_front();
    std::uint32_t* state = table_.find(unit);
    if ((*state & kDropped) != 0) {
      *state &= ~(kWaiting | kDropped);
      --occupied_;
      ++removed_;
      if (*state == 0) table_.erase(unit);
      continue;
    }
    *state = (*state & ~kWaiting) + kInFlight;
    --waiting_;
    units.push_back(unit);
  }
  return batches_.take(units);
}

void WriteBuffer::end_batch(std::uint32_t batch) {
  for (const std::uint64_t unit : batches_[batch]) {
    std::uint32_t* state = table_.find(unit);
    *state -= kInFlight;
    if (*state == 0) table_.erase(unit);
  }
  occupied_ -= batches_[batch].size();
  removed_ += batches_[batch].size();
  batches_.release(batch);
}

}  // namespace twin
