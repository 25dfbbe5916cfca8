// I/O schedulers: they choose which queued request the block layer sends to the drive next.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/request.h"
#include "core/units.h"
#include "host/host_parameters.h"

namespace twin {

struct QueuedRequest {
  Command* command;
  Nanoseconds queued_ns;
};

class IoScheduler {
 public:
  explicit IoScheduler(bool merging = true) : merges(merging) {}
  virtual ~IoScheduler() = default;

  // Returns the index in `queue` of the request to send next. `queue` is in order of arrival, and not empty.
  virtual std::size_t pick(Nanoseconds now, const std::vector<QueuedRequest>& queue) = 0;

  const bool merges;  // whether the block layer merges requests that are adjacent on the drive
};

std::unique_ptr<IoScheduler> make_scheduler(Scheduler which);

}  // namespace twin
