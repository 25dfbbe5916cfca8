// The effect of the caching page's settings on the parameters of a drive.
#pragma once

#include "drive/parameters.h"
#include "scsi/scsi_target.h"

namespace twin {

// Changes parameters according to the caching page. RCD, WCE and DRA switch read cache, write cache and read-ahead.
// MAPF limits the read-ahead window, in sectors, unless it is 0 or FFFFh. All other fields, such as FSW, have no
// effect.
//
// A switch that has its factory setting leaves the parameter unchanged, so `--set read_ahead.enabled=off` is effective.
// Nothing is changed for a drive that does not speak SCSI.
inline void apply_mode_pages(const ScsiTarget& target, Parameters& parameters) {
  if (!target.speaks_scsi()) return;
  if (target.is_changed("RCD")) {
    parameters.read_cache.enabled = parameters.disk.read_cache = target.caching("RCD") == 0;
  }
  if (target.is_changed("WCE")) {
    parameters.write_buffer.enabled = parameters.disk.write_cache_enabled = target.caching("WCE") != 0;
  }
  if (target.is_changed("DRA")) {
    parameters.read_ahead.enabled = parameters.disk.read_ahead = target.caching("DRA") == 0;
  }
  const std::int64_t limit =
      static_cast<std::int64_t>(target.caching("MAPF")) * static_cast<std::int64_t>(kSectorBytes);
  if (limit > 0 && target.caching("MAPF") != 0xFFFF && limit < parameters.read_ahead.window) {
    if (limit < parameters.read_ahead.refill) {
      parameters.read_ahead.enabled = false;
    } else {
      parameters.read_ahead.window = limit;
    }
  }
}

}  // namespace twin
