// The four schedulers, modelled on Linux' Documentation/block (deadline-iosched, cfq-iosched) with default tunables.
#include "host/scheduler.h"

#include <algorithm>
#include <cstdint>

namespace twin {
namespace {

constexpr std::size_t kNone = ~std::size_t{0};

// Returns the index of the request nearest at or after `position_bytes` among those for which `want` is true. If there
// is none after the position, returns the one with the lowest offset; kNone if `want` is true for none. Requests at the
// same offset are taken in order of arrival.
template <class Want>
std::size_t next_in_order(const std::vector<QueuedRequest>& queue, std::uint64_t position_bytes, Want want) {
  std::size_t best = kNone;
  std::uint64_t best_distance = 0;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    if (!want(*queue[i].command)) continue;
    // unsigned arithmetic: a request before the position is farther away than every request after it
    const std::uint64_t distance = queue[i].command->request.offset_bytes - position_bytes;
    if (best == kNone || distance < best_distance) {
      best = i;
      best_distance = distance;
    }
  }
  return best;
}

bool is_read(const Command& command) { return command.request.operation == Operation::kRead; }

std::uint64_t end_of(const Command& command) { return command.request.offset_bytes + command.request.size_bytes; }

// First come, first served. `none` leaves ordering and merging to the drive; `noop` merges.
class FifoScheduler final : public IoScheduler {
 public:
  using IoScheduler::IoScheduler;
  std::size_t pick(Nanoseconds, const std::vector<QueuedRequest>&) override { return 0; }
};

// Sends batches of reads or writes in order of their offsets. Reads come first, but neither reads nor writes wait much
// longer than their deadline.
class DeadlineScheduler final : public IoScheduler {
 public:
  std::size_t pick(Nanoseconds now, const std::vector<QueuedRequest>& queue) override {
    const auto wanted = [this](const Command& command) { return is_read(command) == reading_; };
    std::size_t next = kNone;
    if (batch_ > 0 && batch_ < kFifoBatch) {
      next = next_in_order(queue, position_, wanted);
      // a batch ends where it would have to go back to a lower offset
      if (next != kNone && queue[next].command->request.offset_bytes < position_) next = kNone;
    }
    if (next == kNone) {
      choose_direction(queue);
      batch_ = 0;
      // the batch starts at the oldest request of its direction if that has expired
      const auto oldest =
          std::ranges::find_if(queue, wanted, [](const auto& each) -> Command& { return *each.command; });
      const bool expired = now - oldest->queued_ns >= (reading_ ? kReadExpire : kWriteExpire);
      next = expired ? static_cast<std::size_t>(oldest - queue.begin()) : next_in_order(queue, position_, wanted);
    }
    ++batch_;
    position_ = end_of(*queue[next].command);
    return next;
  }

 private:
  static constexpr Nanoseconds kReadExpire = 500 * kMillisecond;
  static constexpr Nanoseconds kWriteExpire = 5 * kSecond;
  static constexpr int kFifoBatch = 16;
  static constexpr int kWritesStarved = 2;

  void choose_direction(const std::vector<QueuedRequest>& queue) {
    bool reads = false;
    bool writes = false;
    for (const QueuedRequest& each : queue) (is_read(*each.command) ? reads : writes) = true;
    reading_ = reads && (!writes || starved_ < kWritesStarved);
    starved_ = reading_ && writes ? starved_ + 1 : 0;
  }

  bool reading_ = true;
  int batch_ = 0;
  int starved_ = 0;
  std::uint64_t position_ = 0;
};

// Gives each process a time slice in turn, and sends the requests of the process in order of their offsets. A slice
// ends early when its process has no queued request: slice_idle is 0, which the kernel sets for drives that do not
// rotate.
class CfqScheduler final : public IoScheduler {
 public:
  std::size_t pick(Nanoseconds now, const std::vector<QueuedRequest>& queue) override {
    const auto is_active = [this](const Command& command) { return command.request.job == active_; };
    std::size_t next = now < slice_end_ ? next_in_order(queue, position_, is_active) : kNone;
    if (next == kNone) {
      // the next process in turn that has a queued request
      std::uint32_t least = ~0U;
      for (const QueuedRequest& each : queue) {
        const std::uint32_t turns = each.command->request.job - active_ - 1;
        if (turns < least) least = turns;
      }
      active_ += least + 1;
      slice_end_ = now + kSlice;
      next = next_in_order(queue, position_, is_active);
    }
    position_ = end_of(*queue[next].command);
    return next;
  }

 private:
  static constexpr Nanoseconds kSlice = 100 * kMillisecond;

  std::uint32_t active_ = 0;
  Nanoseconds slice_end_ = 0;
  std::uint64_t position_ = 0;
};

}  // namespace

std::unique_ptr<IoScheduler> make_scheduler(Scheduler which) {
  if (which == Scheduler::kDeadline) return std::make_unique<DeadlineScheduler>();
  if (which == Scheduler::kCfq) return std::make_unique<CfqScheduler>();
  return std::make_unique<FifoScheduler>(which == Scheduler::kNoop);
}

}  // namespace twin
