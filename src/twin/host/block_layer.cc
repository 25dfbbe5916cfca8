// Splitting, merging and dispatching of requests.
#include "host/block_layer.h"

#include <algorithm>
#include <utility>

namespace twin {

BlockLayer::BlockLayer(const HostParameters& parameters, EventQueue& events, CommandPort& drive, Counters& counters,
                       CompletionSink& sink, std::uint64_t seed)
    : events_(events),
      drive_(drive),
      counters_(counters),
      sink_(sink),
      scheduler_(make_scheduler(parameters.scheduler)),
      lock_time_(parameters.lock_time),
      nr_requests_(static_cast<std::size_t>(parameters.nr_requests)),
      max_request_bytes_(static_cast<std::uint64_t>(parameters.max_request)),
      backlog_(parameters.submitter_burst, seed) {
  queue_.reserve(nr_requests_);
}

void BlockLayer::submit(Nanoseconds now, const Request& request, std::uint64_t ticket) {
  // a discard is not split, because it transfers no data
  const std::uint64_t limit = request.operation == Operation::kDiscard ? ~0ULL : max_request_bytes_;
  const std::uint64_t parts =
      std::max<std::uint64_t>(1, request.size_bytes / limit + (request.size_bytes % limit != 0));
  const std::uint32_t origin = origins_.take({ticket, static_cast<std::uint32_t>(parts)});
  for (std::uint64_t part = 0; part < parts; ++part) {
    const std::uint32_t slot = commands_.take({});
    Command& command = commands_[slot];
    command.index = slot;
    command.request = request;
    command.request.offset_bytes += part * limit;
    command.request.size_bytes = std::min(limit, request.size_bytes - part * limit);
    command.ticket = origin;
    if (lock_time_ == 0) {
      send_or_enqueue(now, command);
      continue;
    }
    lock_free_ = std::max(lock_free_, now) + lock_time_;
    events_.schedule(lock_free_, *this, slot);
  }
}

// Handles the end of a command's turn at the lock of the block layer.
void BlockLayer::on_event(Nanoseconds now, std::uint64_t what) { send_or_enqueue(now, commands_[what]); }

void BlockLayer::send_or_enqueue(Nanoseconds now, Command& command) {
  if (queue_.empty() && may_send()) {
    send_or_hold(now, command);
  } else {
    enqueue(now, command);
  }
}

void BlockLayer::enqueue(Nanoseconds now, Command& command) {
  if (scheduler_->merges && merge(command)) return;
  if (queue_.size() < nr_requests_) {
    queue_.push_back({&command, now});
  } else {
    backlog_.push(command);
  }
}

// Merges the command into a queued one if the two are adjacent on the drive, in either order.
bool BlockLayer::merge(Command& command) {
  const Request& request = command.request;
  if (request.operation != Operation::kRead && request.operation != Operation::kWrite) return false;
  for (const QueuedRequest& each : queue_) {
    Request& other = each.command->request;
    if (other.operation != request.operation || other.size_bytes + request.size_bytes > max_request_bytes_) continue;
    const bool back = other.offset_bytes + other.size_bytes == request.offset_bytes;
    if (!back && request.offset_bytes + request.size_bytes != other.offset_bytes) continue;
    other.offset_bytes = std::min(other.offset_bytes, request.offset_bytes);
    other.size_bytes += request.size_bytes;
    command.next_merged = each.command->next_merged;
    each.command->next_merged = &command;
    ++counters_.merged_requests;
    return true;
  }
  return false;
}

void BlockLayer::dispatch(Nanoseconds now) {
  while (!queue_.empty() && may_send()) {
    const std::size_t index = scheduler_->pick(now, queue_);
    Command& command = *queue_[index].command;
    queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(index));
    while (!backlog_.empty() && queue_.size() < nr_requests_) {
      enqueue(now, backlog_.pop());
    }
    send_or_hold(now, command);
  }
}

// Returns whether a command may be sent. While the drive holds a command that cannot be queued, or such a command waits
// for the drive, no other may.
bool BlockLayer::may_send() const { return drive_.has_free_slot() && held_ == nullptr && !drive_exclusive_; }

// Sends a command. One that cannot be queued is held until the drive holds no other.
void BlockLayer::send_or_hold(Nanoseconds now, Command& command) {
  if (drive_.can_queue(command.request.operation)) return send(now, command);
  if (drive_.outstanding() > 0) {
    held_ = &command;
    return;
  }
  drive_exclusive_ = true;
  send(now, command);
}

void BlockLayer::send(Nanoseconds now, Command& command) {
  Counters& c = counters_;
  // by Operation; a flush has no bytes
  std::uint64_t* const commands[] = {&c.read_commands, &c.write_commands, &c.flush_commands, &c.discard_commands};
  std::uint64_t* const bytes[] = {&c.read_bytes, &c.write_bytes, nullptr, &c.discard_bytes};
  const auto operation = static_cast<std::size_t>(command.request.operation);
  ++*commands[operation];
  if (bytes[operation] != nullptr) *bytes[operation] += command.request.size_bytes;
  drive_.send(now, command);
  counters_.queue_depth_max = std::max<std::uint64_t>(counters_.queue_depth_max, drive_.outstanding());
  if (recorder_ != nullptr) recorder_->record(now, Series::kQueueDepth, 0, drive_.outstanding());
}

void BlockLayer::completed(Nanoseconds now, Command& command) {
  if (recorder_ != nullptr) recorder_->record(now, Series::kQueueDepth, 0, drive_.outstanding());
  for (Command* each = &command; each != nullptr;) {
    Command* next = each->next_merged;
    const auto origin = static_cast<std::uint32_t>(each->ticket);
    commands_.release(each->index);
    if (--origins_[origin].parts == 0) {
      origins_.release(origin);
      sink_.completed(now, origins_[origin].ticket);
    }
    each = next;
  }
  drive_exclusive_ = false;
  if (held_ != nullptr && drive_.outstanding() == 0) send_or_hold(now, *std::exchange(held_, nullptr));
  dispatch(now);
}

}  // namespace twin
