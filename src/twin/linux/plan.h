// The description of one run. Python sends it on the standard input, as `key=value` records that end with a zero byte.
#pragma once

#include <cstdint>
#include <istream>
#include <string>

namespace twin {

struct Plan {
  // paths of the kernel, of its first process, and of the libraries that the kernel and the command load
  std::string kernel;
  std::string init;
  std::string library;
  std::string program_library;
  std::string model;     // the text form of the drive's parameters
  std::string settings;  // the folder with the drive's mode pages
  // paths of optional outputs; empty if the output is not requested
  std::string trace;
  std::string counters;
  std::string image;
  std::string summary;  // receives how often the host's clock made a program give way
  std::string folder;   // a folder of the host in which the guest may write; may be empty
  std::int64_t interval_ns = 0, interval_bytes = 0;
  std::int64_t seed = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t queue_depth = 0;
  std::int64_t wall_limit_s = 0;
  std::int64_t time_of_day_s = 0;          // since 1970, when the guest's clock starts
  std::int64_t call_ns = 0, fault_ns = 0;  // the time that a system call and a page fault of the command take
  std::int64_t real_time = 0;              // 1: the kernel has no time travel
  std::int64_t trace_all = 0;              // 1: the trace begins with mkfs and mount
  std::int64_t user = 0, group = 0;        // the user and group of the guest's processes on the host
  std::string guest;                       // the records for the guest's first process, without their prefix `guest.`

  // Returns whether the command's own work takes time.
  [[nodiscard]] bool charges() const { return real_time == 0 && (call_ns > 0 || fault_ns > 0); }

  // Reads a plan until the end of the stream. Throws std::runtime_error for an unknown or incomplete record.
  static Plan read(std::istream& stream);
};

}  // namespace twin
