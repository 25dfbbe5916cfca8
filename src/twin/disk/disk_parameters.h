// Parameters of a hard disk: mechanics, track buffer, write cache, command queue.
#pragma once

#include "core/fields.h"
#include "core/units.h"

namespace twin {

struct DiskParameters {
  std::int64_t rotation_rpm = 7200;
  std::int64_t heads = 1;
  std::int64_t cylinders = 1;
  std::int64_t zones = 1;
  std::int64_t outer_rate = 1;
  std::int64_t inner_rate = 1;
  Nanoseconds track_to_track_seek = 0;
  Nanoseconds average_seek = 0;
  Nanoseconds full_seek = 0;
  Nanoseconds head_switch = 0;
  Nanoseconds write_settle = 0;
  Nanoseconds command_time = 0;
  std::int64_t track_buffer = 0;
  bool read_ahead = true;
  bool read_cache = true;
  std::int64_t write_cache = 0;
  bool write_cache_enabled = true;
  bool reorders = true;
  double reorder_share = 0;
  Nanoseconds longest_wait = 500 * kMillisecond;

  void visit(FieldVisitor& v) {
    v.count("rotation_rpm", rotation_rpm, 1000, 30000, "revolutions of the platters in a minute");
    v.count("heads", heads, 1, 64, "number of surfaces in use");
    v.count("cylinders", cylinders, 100, 10'000'000, "number of tracks on one surface");
    v.count("zones", zones, 1, 1000, "number of groups of cylinders with the same number of sectors in each track");
    v.rate("outer_rate", outer_rate, 100'000, 10'000'000'000, "media rate in the outermost zone");
    v.rate("inner_rate", inner_rate, 100'000, 10'000'000'000, "media rate in the innermost zone");
    v.time("track_to_track_seek", track_to_track_seek, kSecond, "time of a seek to the next cylinder");
    v.time("average_seek", average_seek, kSecond, "mean seek time over random pairs of cylinders");
    v.time("full_seek", full_seek, kSecond, "time of a seek across all cylinders");
    v.time("head_switch", head_switch, kSecond, "time to change to another surface of a cylinder");
    v.time("write_settle", write_settle, kSecond, "additional settling time before a write");
    v.time("command_time", command_time, kSecond, "processing time of a command");
    v.size("track_buffer", track_buffer, 0, 1LL << 34, "memory for data that were read or prefetched");
    v.toggle("read_ahead", read_ahead, "not DRA: whether the disk reads on after the end of a request");
    v.toggle("read_cache", read_cache, "not RCD: whether the track buffer serves repeated reads");
    v.size("write_cache", write_cache, 0, 1LL << 34, "memory for written data");
    v.toggle("write_cache_enabled", write_cache_enabled, "WCE: whether writes are acknowledged from the write cache");
    v.toggle("reorders", reorders, "whether the queued command with the shortest positioning time is served next");
    v.optional_ratio("reorder_share", reorder_share, 0, 1,
                     "share of the queued commands, the oldest ones, that are compared for this; 0: all of them");
    v.optional_time("longest_wait", longest_wait, 100 * kSecond,
                    "time after which a queued command or cached write goes first, however far it is");
  }
};

}  // namespace twin
