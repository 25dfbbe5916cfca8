// The link between host and drive: transfers commands, data and responses, one at a time in each direction.
#pragma once

#include <cstdint>
#include <vector>

#include "core/device.h"
#include "core/event_queue.h"
#include "link/link_parameters.h"

namespace twin {

// A command and its status each occupy the link for half of command_time. Data occupy it for their size over the rate,
// plus frame_time between two frames. On a half-duplex link, turnaround_time is added to a read or write command whose
// data go in the other direction than the previous data.
//
// Calls come in the order of simulated time. Therefore the link only stores when each direction will be free.
class Link final : public CommandPort, private EventHandler {
 public:
  Link(const LinkParameters& parameters, EventQueue& events);

  // Call before all other functions. Both must outlive the link's last event.
  void connect(Initiator& host, Device& device);

  [[nodiscard]] bool has_free_slot() const override { return outstanding_ < slots_; }
  [[nodiscard]] std::uint32_t outstanding() const override { return outstanding_; }
  [[nodiscard]] bool can_queue(Operation operation) const override {
    return queues_all_ || operation == Operation::kRead || operation == Operation::kWrite;
  }

  // Returns how long `size_bytes` of data occupy the link, after `transferred_bytes` of the same command.
  [[nodiscard]] Nanoseconds data_ns(std::uint64_t size_bytes, std::uint64_t transferred_bytes = 0) const {
    const Nanoseconds time = transfer_ns(size_bytes, rate_);
    if (frame_time_ == 0 || size_bytes == 0) return time;
    const std::uint64_t gaps_before = transferred_bytes == 0 ? 0 : (transferred_bytes - 1) / frame_bytes_;
    const std::uint64_t gaps_after = (transferred_bytes + size_bytes - 1) / frame_bytes_;
    return time + static_cast<Nanoseconds>(gaps_after - gaps_before) * frame_time_;
  }

  // Transfers a command, with the data of a write, to the device, and then calls Device::start(). A slot must be free.
  void send(Nanoseconds now, Command& command) override;

  // Transfers a part of a read's data to the host before the response. The data are in the drive's memory at `ready`,
  // which must not decrease from call to call.
  void transfer_to_host(Nanoseconds ready, Command& command, std::uint64_t size_bytes);

  // Transfers the rest of a read's data and the status, and then calls Initiator::completed(). This frees the slot.
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
  Nanoseconds frame_time_;  // 0 if data are not divided into frames
  Nanoseconds turnaround_time_;
  std::uint32_t slots_;
  bool full_duplex_;
  bool queues_all_;
  Nanoseconds free_[2] = {0, 0};             // when each direction will be free
  Operation last_data_ = Operation::kFlush;  // last read or write sent; kFlush before the first
  std::uint32_t outstanding_ = 0;
  std::vector<Command*> commands_;  // by Command::index
};

}  // namespace twin
