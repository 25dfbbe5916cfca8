// What one run is to do, as Python says it: records `key=value`, a zero byte after each, on the standard input.
#pragma once

#include <cstdint>
#include <string>

namespace twin {

struct Plan {
  std::string kernel;  // paths of the kernel, of its first process, and of the library that it loads
  std::string init;
  std::string library;
  std::string model;     // the text form of the drive's parameters
  std::string settings;  // the folder with the drive's mode pages
  std::string trace;     // paths; empty where none is wanted
  std::string counters;
  std::string image;
  std::string folder;  // of the host, in which the guest may write
  std::int64_t interval_ns = 0, interval_bytes = 0;
  std::int64_t seed = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t queue_depth = 0;
  std::int64_t wall_limit_s = 0;
  std::int64_t real_time = 0;        // 1: the kernel has no time travel
  std::int64_t trace_all = 0;        // 1: the trace begins with mkfs and mount
  std::int64_t user = 0, group = 0;  // as whom the guest runs on the host
  std::string guest;                 // the records for the guest's first process, their `guest.` left off

  // Throws std::runtime_error for a record that is not known.
  static Plan read(int descriptor);
};

}  // namespace twin
