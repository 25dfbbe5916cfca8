// Makes the FTL that a drive's parameters ask for.
#pragma once

#include <memory>

#include "core/event_queue.h"
#include "drive/parameters.h"
#include "ftl/ftl.h"

namespace twin {

std::unique_ptr<Ftl> make_ftl(const Parameters& parameters, EventQueue& events, FtlClient& client, Counters& counters);

}  // namespace twin
