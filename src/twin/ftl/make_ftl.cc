// The choice between the two ways of mapping.
#include "ftl/make_ftl.h"

#include "ftl/log_block_ftl.h"
#include "ftl/page_ftl.h"

namespace twin {

std::unique_ptr<Ftl> make_ftl(const Parameters& parameters, EventQueue& events, FtlClient& client, Counters& counters) {
  if (parameters.ftl.mapping == static_cast<int>(Mapping::kPage)) {
    return std::make_unique<PageFtl>(parameters, events, client, counters);
  }
  return std::make_unique<LogBlockFtl>(parameters, events, client, counters);
}

}  // namespace twin
