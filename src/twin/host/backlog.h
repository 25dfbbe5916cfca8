// The commands of submitters that wait because the block layer is full.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "core/random.h"
#include "core/request.h"

namespace twin {

// Without a burst, commands leave in order of arrival. With a burst, the jobs have an order of preference, and the
// first job with a command goes on. Once in `burst` commands in the mean, a random waiting job becomes the first. A job
// whose last command leaves may become the last. This reproduces measured distributions of latencies. That their cause
// is which threads run and which sleep was not tested.
class Backlog {
 public:
  Backlog(std::int64_t burst, std::uint64_t seed);

  [[nodiscard]] bool empty() const { return size_ == 0; }
  void push(Command& command);
  // Removes the command that goes on, and returns it. The backlog must not be empty.
  Command& pop();

 private:
  [[nodiscard]] std::deque<Command*>& commands_at(std::size_t place) { return by_job_[preferred_[place]]; }
  void prefer_random_job();

  std::uint64_t change_threshold_;  // a random number below it means that the preference changes; 0: one queue for all
  Random random_;
  std::size_t size_ = 0;
  std::vector<std::deque<Command*>> by_job_;  // by job; without a burst one queue
  std::vector<std::uint32_t> preferred_;      // jobs in order of preference
};

}  // namespace twin
