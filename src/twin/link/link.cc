// A full-duplex link is one server for each direction; a half-duplex link is one server for both.
#include "link/link.h"

#include <algorithm>

namespace twin {
namespace {

enum : std::uint64_t { kArrived, kResponded };

}  // namespace

Link::Link(const LinkParameters& parameters, EventQueue& events)
    : events_(events),
      rate_(parameters.rate),
      half_command_time_(parameters.command_time / 2),
      frame_bytes_(static_cast<std::uint64_t>(parameters.frame)),
      frame_time_(parameters.frame > 0 ? parameters.frame_time : 0),
      turnaround_time_(parameters.full_duplex ? 0 : parameters.turnaround_time),
      slots_(static_cast<std::uint32_t>(parameters.queue_slots)),
      full_duplex_(parameters.full_duplex),
      queues_all_(!parameters.queues_only_data) {}

void Link::connect(Initiator& host, Device& device) {
  host_ = &host;
  device_ = &device;
}

void Link::send(Nanoseconds now, Command& command) {
  ++outstanding_;
  if (command.index >= commands_.size()) commands_.resize(2 * command.index + 64);
  commands_[command.index] = &command;
  command.transferred_bytes = 0;
  Nanoseconds time = half_command_time_;
  const Operation operation = command.request.operation;
  if (operation == Operation::kWrite) time += data_ns(command.request.size_bytes);
  if (operation == Operation::kRead || operation == Operation::kWrite) {
    if (last_data_ != Operation::kFlush && last_data_ != operation) time += turnaround_time_;
    last_data_ = operation;
  }
  to_drive() = std::max(to_drive(), now) + time;
  events_.schedule(to_drive(), *this, static_cast<std::uint64_t>(command.index) << 1 | kArrived);
}

void Link::transfer_to_host(Nanoseconds ready, Command& command, std::uint64_t size_bytes) {
  to_host() = std::max(to_host(), ready) + data_ns(size_bytes, command.transferred_bytes);
  command.transferred_bytes += size_bytes;
}

void Link::respond(Nanoseconds now, Command& command) {
  Nanoseconds time = half_command_time_;
  if (command.request.operation == Operation::kRead) {
    time += data_ns(command.request.size_bytes - command.transferred_bytes, command.transferred_bytes);
  }
  to_host() = std::max(to_host(), now) + time;
  events_.schedule(to_host(), *this, static_cast<std::uint64_t>(command.index) << 1 | kResponded);
}

void Link::on_event(Nanoseconds now, std::uint64_t what) {
  Command& command = *commands_[what >> 1];
  if ((what & 1) == kArrived) return device_->start(now, command);
  --outstanding_;
  host_->completed(now, command);
}

}  // namespace twin
