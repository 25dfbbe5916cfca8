// A simulated drive as its users see it: requests in, completions out, in the order of simulated time.
//
// The preload library, the trace replay and the tests use this class. It is not thread safe: the caller must ensure
// that only one thread at a time calls it, and that times never decrease.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "core/counters.h"
#include "core/device.h"
#include "core/event_queue.h"
#include "core/request.h"
#include "core/units.h"
#include "drive/parameters.h"
#include "ftl/ftl.h"
#include "host/block_layer.h"
#include "link/link.h"

namespace twin {

struct Completion {
  std::uint64_t ticket;
  Nanoseconds when_ns;
};

class Drive final : private CompletionSink {
 public:
  // `seed` decides the random behaviour of the drive, such as which page reads need retries. Throws
  // std::invalid_argument, naming the parameter, for parameters that contradict each other.
  explicit Drive(const Parameters& parameters, std::uint64_t seed = 0);
  Drive(const Drive&) = delete;
  Drive& operator=(const Drive&) = delete;

  [[nodiscard]] std::uint64_t size_bytes() const { return static_cast<std::uint64_t>(parameters_.capacity.size); }

  // Processor time of the submitting thread per request before it reaches the block layer, per wait for a completion,
  // and per request that it reaps.
  [[nodiscard]] Nanoseconds submit_cost_ns(const Request& request) const;
  [[nodiscard]] Nanoseconds wakeup_cost_ns() const { return parameters_.host.wakeup_time; }
  [[nodiscard]] Nanoseconds reap_cost_ns() const { return parameters_.host.reap_time; }

  // Returns whether submitting an asynchronous request waits until the request is complete.
  [[nodiscard]] bool blocking_submit() const { return parameters_.host.blocking_submit; }

  // Submits a request to the block layer. `now` must not be earlier than in any previous call of submit() or run().
  void submit(Nanoseconds now, const Request& request, std::uint64_t ticket);

  // Returns the time of the drive's next event; kNever if there is none.
  [[nodiscard]] Nanoseconds next_event_ns() const {
    return completions_.empty() ? events_.next() : completions_.front().when_ns;
  }

  // Handles all events up to and including `until`, but stops at the first completion and returns it.
  std::optional<Completion> run(Nanoseconds until);

  [[nodiscard]] const Counters& counters() const { return counters_; }

  // Records from now on the queue depth at each change, and counters, erase counts and valid ratios at each
  // multiple of `interval_ns` of simulated time and every `interval_bytes` written (0: never). The recorder must
  // outlive the drive.
  void record_to(Recorder& recorder, Nanoseconds interval_ns, std::uint64_t interval_bytes);

 private:
  void completed(Nanoseconds now, std::uint64_t ticket) override { completions_.push_back({ticket, now}); }
  void record_before(Nanoseconds next);
  void record_state(Nanoseconds now);

  const Parameters parameters_;
  EventQueue events_;
  Counters counters_;
  Link link_;
  BlockLayer block_layer_;
  std::unique_ptr<Device> device_;
  const Ftl* ftl_ = nullptr;            // of an SSD
  std::deque<Completion> completions_;  // that run() has not returned
  Recorder* recorder_ = nullptr;
  Nanoseconds interval_ns_ = 0, next_snapshot_ = kNever;
  std::uint64_t interval_bytes_ = 0, next_bytes_ = 0, written_bytes_ = 0;
};

}  // namespace twin
