// The block layer: takes requests, splits and merges them, and queues them while the drive's own queue is full.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/counters.h"
#include "core/device.h"
#include "core/event_queue.h"
#include "core/slot_pool.h"
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
  // All must outlive the block layer.
  BlockLayer(const HostParameters& parameters, EventQueue& events, CommandPort& drive, Counters& counters,
             CompletionSink& sink);

  // Takes a request; the sink is told its ticket once, when all of it is complete.
  void submit(Nanoseconds now, const Request& request, std::uint64_t ticket);

  void completed(Nanoseconds now, Command& command) override;

  // From now on reports to `recorder` how many commands the drive holds, after each that is sent or completed.
  void record_to(Recorder& recorder) { recorder_ = &recorder; }

 private:
  // A request as it was submitted, and how many of the commands that it was split into are not complete.
  struct Origin {
    std::uint64_t ticket = 0;
    std::uint32_t parts = 0;
  };

  void on_event(Nanoseconds now, std::uint64_t what) override;
  void arrive(Nanoseconds now, Command& command);
  void enqueue(Nanoseconds now, Command& command);
  bool merge(Command& command);
  void dispatch(Nanoseconds now);
  [[nodiscard]] bool may_send() const;
  void begin(Nanoseconds now, Command& command);
  void send(Nanoseconds now, Command& command);

  EventQueue& events_;
  CommandPort& drive_;
  Counters& counters_;
  CompletionSink& sink_;
  Recorder* recorder_ = nullptr;
  std::unique_ptr<IoScheduler> scheduler_;
  Nanoseconds lock_time_;
  Nanoseconds lock_free_ = 0;
  std::size_t nr_requests_;
  std::uint64_t max_request_bytes_;
  std::vector<Waiting> waiting_;    // the scheduler's queue, in the order of arrival
  std::deque<Command*> congested_;  // those beyond nr_requests; a real submitter would sleep
  Command* held_ = nullptr;         // not queued by the drive: waits until the drive holds no other
  bool alone_ = false;              // whether the drive holds a command that it does not queue
  SlotPool<Command> commands_;      // a command's `index` is its slot
  SlotPool<Origin> origins_;        // a command's `ticket` is the slot of its origin
};

}  // namespace twin
