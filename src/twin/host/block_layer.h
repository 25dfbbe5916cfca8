// The block layer: takes requests, splits and merges them, and keeps those that wait while the drive's queue is full.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/counters.h"
#include "host/host_parameters.h"
#include "host/scheduler.h"
#include "link/link.h"

namespace twin {

class CompletionSink {
 public:
  virtual void completed(Nanoseconds now, std::uint64_t ticket) = 0;

 protected:
  ~CompletionSink() = default;
};

class BlockLayer final : public Initiator {
 public:
  // All must outlive the block layer.
  BlockLayer(const HostParameters& parameters, Link& link, Counters& counters, CompletionSink& sink);

  // Takes a request; the sink hears of its ticket once, when all of it is over.
  void submit(Nanoseconds now, const Request& request, std::uint64_t ticket);

  void completed(Nanoseconds now, Command& command) override;

  // Tells `recorder` from now on how many commands the drive holds, after each that is sent and each that is over.
  void record_to(Recorder& recorder) { recorder_ = &recorder; }

 private:
  struct Origin {  // a request, and how many of its parts are not over
    std::uint64_t ticket;
    std::uint32_t parts;
  };

  Command& take_command();
  void enqueue(Nanoseconds now, Command& command);
  bool merge(Command& command);
  void dispatch(Nanoseconds now);
  void send(Nanoseconds now, Command& command);

  Link& link_;
  Counters& counters_;
  CompletionSink& sink_;
  Recorder* recorder_ = nullptr;
  std::unique_ptr<IoScheduler> scheduler_;
  std::size_t nr_requests_;
  std::uint64_t max_request_bytes_;
  std::vector<Waiting> waiting_;    // in the scheduler, in the order of arrival
  std::deque<Command*> congested_;  // beyond nr_requests: their submitters would sleep
  std::vector<std::unique_ptr<Command>> pool_;
  std::vector<Command*> free_commands_;
  std::vector<Origin> origins_;  // a command's `ticket` is its origin's place here
  std::vector<std::uint32_t> free_origins_;
};

}  // namespace twin
