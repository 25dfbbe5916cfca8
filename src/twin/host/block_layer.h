// The block layer: splits and merges requests, and queues them while the drive's own queue is full.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/counters.h"
#include "core/device.h"
#include "core/event_queue.h"
#include "core/slot_pool.h"
#include "host/backlog.h"
#include "host/host_parameters.h"
#include "host/scheduler.h"

namespace twin {

class CompletionSink {
 public:
  virtual void completed(Nanoseconds now, std::uint64_t ticket) = 0;

 protected:
  ~CompletionSink() = default;
};

class BlockLayer final : public Initiator, private EventHandler {
 public:
  // All arguments but `parameters` must outlive the block layer. `seed` decides which job is preferred.
  BlockLayer(const HostParameters& parameters, EventQueue& events, CommandPort& drive, Counters& counters,
             CompletionSink& sink, std::uint64_t seed = 0);

  // Accepts a request. The sink gets `ticket` once, when all parts of the request are complete.
  void submit(Nanoseconds now, const Request& request, std::uint64_t ticket);

  void completed(Nanoseconds now, Command& command) override;

  // Records from now on how many commands the drive holds, after each command that is sent or completed.
  void record_to(Recorder& recorder) { recorder_ = &recorder; }

 private:
  // A request as submitted.
  struct Origin {
    std::uint64_t ticket = 0;
    std::uint32_t parts = 0;  // commands of this request that are not complete
  };

  void on_event(Nanoseconds now, std::uint64_t what) override;
  void send_or_enqueue(Nanoseconds now, Command& command);
  void enqueue(Nanoseconds now, Command& command);
  bool merge(Command& command);
  void dispatch(Nanoseconds now);
  [[nodiscard]] bool may_send() const;
  void send_or_hold(Nanoseconds now, Command& command);
  void send(Nanoseconds now, Command& command);

  EventQueue& events_;
  CommandPort& drive_;
  Counters& counters_;
  CompletionSink& sink_;
  Recorder* recorder_ = nullptr;
  std::unique_ptr<IoScheduler> scheduler_;
  Nanoseconds lock_time_;
  Nanoseconds lock_free_ = 0;  // when the lock is free
  std::size_t nr_requests_;
  std::uint64_t max_request_bytes_;
  std::vector<QueuedRequest> queue_;  // the scheduler's queue, in order of arrival
  Backlog backlog_;                   // commands beyond nr_requests; a real submitter would sleep
  Command* held_ = nullptr;           // command that cannot be queued; waits until the drive holds no other
  bool drive_exclusive_ = false;      // whether the drive holds a command that cannot be queued
  SlotPool<Command> commands_;        // the slot is the command's `index`
  SlotPool<Origin> origins_;          // the slot is the command's `ticket`
};

}  // namespace twin
