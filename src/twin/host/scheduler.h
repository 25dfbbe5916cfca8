// The schedulers, which choose the waiting request of the block layer that is sent to the drive next.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/request.h"
#include "core/units.h"
#include "host/host_parameters.h"

namespace twin {

struct Waiting {
  Command* command;
  Nanoseconds since_ns;
};

class IoScheduler {
 public:
  virtual ~IoScheduler() = default;

  // Returns the index in `waiting` of the request to send next. `waiting` is in the order of arrival and not empty.
  virtual std::size_t pick(Nanoseconds now, const std::vector<Waiting>& waiting) = 0;

  // Whether requests that continue each other on the drive are sent as one.
  [[nodiscard]] virtual bool merges() const { return true; }
};

std::unique_ptr<IoScheduler> make_scheduler(Scheduler which);

}  // namespace twin
