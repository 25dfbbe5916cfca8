// All parameters of a drive, and their text form: a line `group.name value` each, numbers in nanoseconds, bytes, bytes
// per second or counts. Python makes that text of a model file in data/twins/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "controller/controller_parameters.h"
#include "core/fields.h"
#include "disk/disk_parameters.h"
#include "flash/flash_parameters.h"
#include "ftl/ftl_parameters.h"
#include "host/host_parameters.h"
#include "link/link_parameters.h"

namespace twin {

enum class DriveKind : std::uint8_t { kSsd, kHardDisk };

struct CapacityParameters {
  std::int64_t size = 0;

  void visit(FieldVisitor& v) {
    v.number("size", size, Unit::kBytes, 1 << 20, 1LL << 50, "what the host sees as the drive's size");
  }
};

struct Parameters {
  DriveKind kind = DriveKind::kSsd;
  CapacityParameters capacity;
  HostParameters host;
  LinkParameters link;
  ControllerParameters controller;
  WriteBufferParameters write_buffer;
  ReadCacheParameters read_cache;
  ReadAheadParameters read_ahead;
  FlashParameters flash;
  AgeingParameters ageing;
  FtlParameters ftl;
  PageMappingParameters page_mapping;
  LogMappingParameters log_mapping;
  DiskParameters disk;

  // Whether the drive's write cache is on: the kernel sends no flush to a drive whose cache it knows to be off.
  [[nodiscard]] bool caches_writes() const {
    return kind == DriveKind::kSsd ? write_buffer.enabled : disk.write_cache_enabled;
  }

  // Calls visit(name, group, needed) for each group in the order of the way of a request. `needed` says whether a drive
  // of this kind, with this mapping, has the group.
  template <class Visit>
  void groups(Visit&& visit) {
    const bool ssd = kind == DriveKind::kSsd;
    const bool page_mapped = ftl.mapping == Mapping::kPage;
    visit("capacity", capacity, true);
    visit("host", host, true);
    visit("link", link, true);
    visit("controller", controller, ssd);
    visit("write_buffer", write_buffer, ssd);
    visit("read_cache", read_cache, ssd);
    visit("read_ahead", read_ahead, ssd);
    visit("flash", flash, ssd);
    visit("ageing", ageing, ssd);
    visit("ftl", ftl, ssd);
    visit("page_mapping", page_mapping, ssd && page_mapped);
    visit("log_mapping", log_mapping, ssd && !page_mapped);
    visit("disk", disk, !ssd);
  }
};

// Reads the text form. Lines that begin with `#` and lines whose group is not one of the above (`identity`,
// `mode_page`) are left to others, but for `identity.transport`, which decides what the drive queues. Throws
// std::invalid_argument naming the line's key for an unknown key, a value out of range, or a key that is missing.
Parameters parse_parameters(std::string_view text);

}  // namespace twin
