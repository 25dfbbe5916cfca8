// Which of the requests that wait in the block layer is sent to the drive next.
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

  // The place of the next one in `waiting`, which is in the order of arrival and not empty.
  virtual std::size_t pick(Nanoseconds now, const std::vector<Waiting>& waiting) = 0;

  // Whether requests that continue each other on the drive are sent as one.
  [[nodiscard]] virtual bool merges() const { return true; }
};

std::unique_ptr<IoScheduler> make_scheduler(Scheduler which);

}  // namespace twin
