// Queues by job, and the order of preference of the jobs.
#include "host/backlog.h"

#include <algorithm>

namespace twin {
namespace {

// Share of the jobs without a waiting command that lose their place. It keeps jobs with few requests from being
// preferred for as long as jobs with many. Chosen with measured percentiles of one SATA SSD, test rows included
// (docs/twins.md).
constexpr double kLosesPlace = 0.25;

}  // namespace

Backlog::Backlog(std::int64_t burst, std::uint64_t seed)
    : change_threshold_(burst == 0 ? 0 : threshold(1 / static_cast<double>(burst))), random_(mix(~seed)) {}

void Backlog::push(Command& command) {
  const std::uint32_t job = change_threshold_ == 0 ? 0 : command.request.job;
  while (by_job_.size() <= job) {
    preferred_.push_back(static_cast<std::uint32_t>(by_job_.size()));
    by_job_.emplace_back();
  }
  by_job_[job].push_back(&command);
  ++size_;
}

Command& Backlog::pop() {
  --size_;
  if (change_threshold_ != 0 && random_.next() < change_threshold_) prefer_random_job();
  std::size_t place = 0;
  while (commands_at(place).empty()) ++place;
  std::deque<Command*>& commands = commands_at(place);
  Command& first = *commands.front();
  commands.pop_front();
  if (commands.empty() && change_threshold_ != 0 && random_.next() < threshold(kLosesPlace)) {
    const auto job = preferred_.begin() + static_cast<std::ptrdiff_t>(place);
    std::rotate(job, job + 1, preferred_.end());
  }
  return first;
}

// Makes one of the jobs that wait the first in the order of preference.
void Backlog::prefer_random_job() {
  std::size_t place = 0;
  do {
    place = random_.below(preferred_.size());
  } while (commands_at(place).empty());
  const auto job = preferred_.begin() + static_cast<std::ptrdiff_t>(place);
  std::rotate(preferred_.begin(), job, job + 1);
}

}  // namespace twin
