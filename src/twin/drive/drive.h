// A simulated drive as its users see it: requests in, completions out, in the order of simulated time.
//
// Knows nothing of who drives it: the preload library, a trace replay and the tests all use this class. Not thread
// safe; the caller sees to it that one thread at a time calls in, with times that never go back.
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
  explicit Drive(const Parameters& parameters);
  ~Drive();
  Drive(const Drive&) = delete;
  Drive& operator=(const Drive&) = delete;

  [[nodiscard]] std::uint64_t size_bytes() const;

  // CPU time of the submitting thread before a request reaches the block layer, and after its completion.
  [[nodiscard]] Nanoseconds submit_cost_ns(const Request& request) const;
  [[nodiscard]] Nanoseconds complete_cost_ns(const Request& request) const;

  // Whether a thread that submits an asynchronous request gets on only when it is over.
  [[nodiscard]] bool blocking_submit() const;

  // Hands a request to the block layer. `now` must not lie before the time of any earlier call of submit() or run().
  void submit(Nanoseconds now, const Request& request, std::uint64_t ticket);

  // The time of the next thing that will happen inside, kNever when nothing is under way.
  [[nodiscard]] Nanoseconds next_event_ns() const;

  // Lets everything happen that happens at or before `until`, but stops at the first completion and returns it.
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
