// All parameters of a drive, and their text form. Python generates the text from a model file in data/twins/. Each line
// is `group.name value`; numbers are nanoseconds, bytes, bytes per second or counts.
#pragma once

#include <charconv>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

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

  void visit(FieldVisitor& v) { v.size("size", size, 1 << 20, 1LL << 50, "size of the drive as the host sees it"); }
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

  // Returns whether the drive's write cache is on. The kernel sends no flush to a drive whose write cache is off.
  [[nodiscard]] bool caches_writes() const {
    return kind == DriveKind::kSsd ? write_buffer.enabled : disk.write_cache_enabled;
  }

  // Calls visit(name, group, needed) for each group, in the order in which a request reaches the layers. `needed` is
  // true if a drive of this kind, with this mapping, has the group. `visit` may set `ftl.mapping`.
  template <class Visit>
  void groups(Visit&& visit) {
    const bool ssd = kind == DriveKind::kSsd;
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
    visit("page_mapping", page_mapping, ssd && ftl.mapping == Mapping::kPage);
    visit("log_mapping", log_mapping, ssd && ftl.mapping == Mapping::kLogBlock);
    visit("disk", disk, !ssd);
  }
};

// The values of a text form by their keys, such as `flash.page`.
using Values = std::map<std::string, std::string, std::less<>>;

// Reads the lines of a text form. Empty lines and lines that begin with `#` are skipped. Throws std::invalid_argument,
// naming the key, for a key without a value.
Values read_values(std::string_view text);

// Parses `text`, the value of `key`. `base` is for integers only, 10 by default. Throws std::invalid_argument, naming
// the key, if the text is not a number of this type.
template <class Number, class... Base>
Number parse_number(std::string_view key, std::string_view text, Base... base) {
  Number value{};
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, value, base...);
  if (error != std::errc() || stop != end) {
    throw std::invalid_argument(std::string(key) + ": '" + std::string(text) + "' is not a valid number");
  }
  return value;
}

// Reads the parameters of a drive from their text form. Groups that Parameters does not have (`identity`, `mode_page`)
// are ignored, except `identity.transport`, which decides which commands the drive can queue. Throws
// std::invalid_argument, naming the key, for a key that is unknown or missing, and for a value out of range.
Parameters parse_parameters(std::string_view text);

}  // namespace twin
