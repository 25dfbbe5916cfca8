// The link between host and drive: transfers commands, data and responses, one at a time in each direction.
#pragma once

#include <cstdint>
#include <vector>

#include "core/device.h"
#include "core/event_queue.h"
#include "link/link_parameters.h"

namespace twin {

// A command and its status each hold the link for half of command_time; data hold it for their size over the rate, and
// for frame_time between any two of their frames. A command whose data go the other way than those of the one before
// holds a half-duplex link for turnaround_time longer.
// Calls come in the order of simulated time. It is therefore enough to know of each direction when it will be free.
class Link final : public CommandPort, private EventHandler {
 public:
  Link(const LinkParameters& parameters, EventQueue& events);

  // To be called before all other functions. Both must outlive the link's last event.
  void connect(Initiator& host, Device& device);

  [[nodiscard]] bool has_slot() const override { return outstanding_ < slots_; }
  [[nodiscard]] std::uint32_t outstanding() const override { return outstanding_; }
  [[nodiscard]] bool queues(Operation operation) const override {
    return queues_all_ || operation == Operation::kRead || operation == Operation::kWrite;
  }

  // How long data of a size hold the link, of a command that has carried so many bytes before.
  [[nodiscard]] Nanoseconds data_ns(std::uint64_t size_bytes, std::uint64_t carried_bytes = 0) const {
    const Nanoseconds time = transfer_ns(size_bytes, rate_);
    if (frame_time_ == 0 || size_bytes == 0) return time;
    const std::uint64_t before = carried_bytes == 0 ? 0 : (carried_bytes - 1) / frame_bytes_;
    const std::uint64_t further = (carried_bytes + size_bytes - 1) / frame_bytes_ - before;
    return time + static_cast<Nanoseconds>(further) * frame_time_;
  }

  // Takes a command, and a write's data, to the device: Device::start() when they have arrived. There must be a slot.
  void send(Nanoseconds now, Command& command) override;

  // Carries a part of a read's data that is in the drive's memory at `ready`, ahead of the response. Calls must come
  // with times that never go back.
  void carry_to_host(Nanoseconds ready, Command& command, std::uint64_t size_bytes);

  // Carries what is left of a read's data, and the status: Initiator::completed() then. The slot is free from then on.
  void respond(Nanoseconds now, Command& command);

 private:
  void on_event(Nanoseconds now, std::uint64_t what) override;
  [[nodiscard]] Nanoseconds& to_drive() { return free_[0]; }
  [[nodiscard]] Nanoseconds& to_host() { return free_[full_duplex_ ? 1 : 0]; }

  EventQueue& events_;
  Initiator* host_ = nullptr;
  Device* device_ = nullptr;
  std::int64_t rate_;
  Nanoseconds half_command_time_;
  std::uint64_t frame_bytes_;
  Nanoseconds frame_time_;  // 0 where data go as a whole
  Nanoseconds turnaround_time_;
  std::uint32_t slots_;
  bool full_duplex_;
  bool queues_all_;
  Nanoseconds free_[2] = {0, 0};        // when each direction is free
  Operation last_ = Operation::kFlush;  // the last that carried data; a flush before there was any
  std::uint32_t outstanding_ = 0;
  std::vector<Command*> commands_;  // by index
};

}  // namespace twin
