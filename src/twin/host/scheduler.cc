// The four schedulers, after Linux' Documentation/block (deadline-iosched, cfq-iosched), with their default tunables.
#include "host/scheduler.h"

#include <cstdint>

namespace twin {
namespace {

constexpr std::size_t kNone = ~std::size_t{0};

// The waiting request for which `want` holds that lies nearest at or after `position_bytes`; the first on the drive if
// none does; kNone if `want` holds for none. Requests at the same offset go in the order of arrival.
template <class Want>
std::size_t next_in_order(const std::vector<Waiting>& waiting, std::uint64_t position_bytes, Want want) {
  std::size_t best = kNone;
  std::uint64_t best_distance = 0;
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    if (!want(*waiting[i].command)) continue;
    // unsigned: a request behind the position counts as farther than every request ahead of it
    const std::uint64_t distance = waiting[i].command->request.offset_bytes - position_bytes;
    if (best == kNone || distance < best_distance) {
      best = i;
      best_distance = distance;
    }
  }
  return best;
}

bool is_read(const Command& command) { return command.request.operation == Operation::kRead; }

std::uint64_t end_of(const Command& command) { return command.request.offset_bytes + command.request.size_bytes; }

// First come, first served: `none`, which leaves ordering to the drive, and `noop`, which merges as well.
class FifoScheduler final : public IoScheduler {
 public:
  explicit FifoScheduler(bool merges) : merges_(merges) {}
  std::size_t pick(Nanoseconds, const std::vector<Waiting>&) override { return 0; }
  [[nodiscard]] bool merges() const override { return merges_; }

 private:
  bool merges_;
};

// Sends batches of reads or writes in the order of their offsets. Reads come first, but neither direction waits much
// longer than its deadline.
class DeadlineScheduler final : public IoScheduler {
 public:
  std::size_t pick(Nanoseconds now, const std::vector<Waiting>& waiting) override {
    const auto wanted = [this](const Command& command) { return is_read(command) == reading_; };
    std::size_t next = kNone;
    if (batch_ > 0 && batch_ < kFifoBatch) {
      next = next_in_order(waiting, position_, wanted);
      // a batch ends where it would have to turn back
      if (next != kNone && waiting[next].command->request.offset_bytes < position_) next = kNone;
    }
    if (next == kNone) {
      turn(waiting);
      batch_ = 0;
      for (std::size_t i = 0; i < waiting.size() && next == kNone; ++i) {
        if (!wanted(*waiting[i].command)) continue;
        // the oldest of its direction: when it has expired, the batch starts there
        if (now - waiting[i].since_ns >= (reading_ ? kReadExpire : kWriteExpire)) next = i;
        break;
      }
      if (next == kNone) next = next_in_order(waiting, position_, wanted);
    }
    ++batch_;
    position_ = end_of(*waiting[next].command);
    return next;
  }

 private:
  static constexpr Nanoseconds kReadExpire = 500 * kMillisecond;
  static constexpr Nanoseconds kWriteExpire = 5 * kSecond;
  static constexpr int kFifoBatch = 16;
  static constexpr int kWritesStarved = 2;

  void turn(const std::vector<Waiting>& waiting) {
    bool reads = false;
    bool writes = false;
    for (const Waiting& each : waiting) (is_read(*each.command) ? reads : writes) = true;
    reading_ = reads && (!writes || starved_ < kWritesStarved);
    starved_ = reading_ && writes ? starved_ + 1 : 0;
  }

  bool reading_ = true;
  int batch_ = 0;
  int starved_ = 0;
  std::uint64_t position_ = 0;
};

// Gives each process a time slice in turn, and sends its requests in the order of their offsets. A slice ends early
// when its process has no request waiting: slice_idle is 0, as the kernel sets it for drives that do not rotate.
class CfqScheduler final : public IoScheduler {
 public:
  std::size_t pick(Nanoseconds now, const std::vector<Waiting>& waiting) override {
    const auto of_active = [this](const Command& command) { return command.request.job == active_; };
    std::size_t next = now < slice_end_ ? next_in_order(waiting, position_, of_active) : kNone;
    if (next == kNone) {
      // the next process in turn that has a request waiting
      std::uint32_t least = ~0U;
      for (const Waiting& each : waiting) {
        const std::uint32_t turns = each.command->request.job - active_ - 1;
        if (turns < least) least = turns;
      }
      active_ += least + 1;
      slice_end_ = now + kSlice;
      next = next_in_order(waiting, position_, of_active);
    }
    position_ = end_of(*waiting[next].command);
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
  switch (which) {
    case Scheduler::kDeadline:
      return std::make_unique<DeadlineScheduler>();
    case Scheduler::kCfq:
      return std::make_unique<CfqScheduler>();
    case Scheduler::kNoop:
      return std::make_unique<FifoScheduler>(true);
    case Scheduler::kNone:
      break;
  }
  return std::make_unique<FifoScheduler>(false);
}

}  // namespace twin
