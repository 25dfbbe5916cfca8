// A simulated drive as its users see it: requests in, completions out, in the order of simulated time.
//
// The preload library, the trace replay and the tests all use this class. It is not thread safe: the caller must make
// sure that one thread at a time calls it, and that times never go back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/counters.h"
#include "core/request.h"
#include "core/units.h"
#include "drive/parameters.h"

namespace twin {

struct Completion {
  std::uint64_t ticket;
  Nanoseconds when_ns;
};

class Drive {
 public:
  // Throws std::invalid_argument, with the parameter's name in the message, for parameters that make no drive.
  // What is left to chance in a drive (which pages need read retries) follows from `seed`.
  explicit Drive(const Parameters& parameters, std::uint64_t seed = 0);
  ~Drive();
  Drive(const Drive&) = delete;
  Drive& operator=(const Drive&) = delete;

  [[nodiscard]] std::uint64_t size_bytes() const;

  // What the thread that makes requests pays the host: for each before it reaches the block layer, once each time it
  // waits for a completion that is not there yet, and for each request that it takes back.
  [[nodiscard]] Nanoseconds submit_cost_ns(const Request& request) const;
  [[nodiscard]] Nanoseconds wakeup_cost_ns() const;
  [[nodiscard]] Nanoseconds reap_cost_ns() const;

  // Whether a thread that submits an asynchronous request waits until the request is complete.
  [[nodiscard]] bool blocking_submit() const;

  // Hands a request to the block layer. `now` must not lie before the time of any earlier call of submit() or run().
  void submit(Nanoseconds now, const Request& request, std::uint64_t ticket);

  // The time of the drive's next event, kNever when there is none.
  [[nodiscard]] Nanoseconds next_event_ns() const;

  // Handles all events up to and including `until`, but stops at the first completion and returns it.
  std::optional<Completion> run(Nanoseconds until);

  [[nodiscard]] const Counters& counters() const;

  // From now on tells `recorder` the queue depth at each change, and counters, erase counts and valid ratios every
  // `interval_ns` of simulated time and every `interval_bytes` written (0: never). The recorder must outlive the drive.
  void record_to(Recorder& recorder, Nanoseconds interval_ns, std::uint64_t interval_bytes);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace twin
