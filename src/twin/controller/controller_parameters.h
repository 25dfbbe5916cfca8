// The drive's controller: its processors, write buffer, read cache and read-ahead.
#pragma once

#include "core/fields.h"
#include "core/units.h"

namespace twin {

struct ControllerParameters {
  Nanoseconds read_command_time = 0;
  Nanoseconds write_command_time = 0;
  Nanoseconds read_interval = 0;
  Nanoseconds write_interval = 0;
  Nanoseconds discard_unit_time = 0;
  std::int64_t read_memory_rate = 1;
  std::int64_t write_memory_rate = 1;
  double throttle = 0;

  void visit(FieldVisitor& v) {
    v.number("read_command_time", read_command_time, Unit::kNanoseconds, 0, kSecond,
             "how long a read command takes through the controller before its data are asked for");
    v.number("write_command_time", write_command_time, Unit::kNanoseconds, 0, kSecond,
             "how long a write, flush or discard command takes through the controller");
    v.number(
        "read_interval", read_interval, Unit::kNanoseconds, 0, kSecond,
        "the least time between two read commands: that of the controller's slowest stage, since many commands are "
        "in it at once");
    v.number("write_interval", write_interval, Unit::kNanoseconds, 0, kSecond,
             "the same of a write, flush or discard command");
    v.number("discard_unit_time", discard_unit_time, Unit::kNanoseconds, 0, kMillisecond,
             "clearing the map's entry of each mapping unit that is discarded");
    v.number("read_memory_rate", read_memory_rate, Unit::kBytesPerSecond, 1'000'000, 1'000'000'000'000,
             "rate at which the data of one read command pass through the buffer memory, while they go over the link");
    v.number("write_memory_rate", write_memory_rate, Unit::kBytesPerSecond, 1'000'000, 1'000'000'000'000,
             "rate at which the data of one write command pass from the link into the buffer memory");
    v.ratio("throttle", throttle, 0, 0.95,
            "share of each 10 ms in which a drive that is too hot takes no command; 0: it is cool");
  }
};

struct WriteBufferParameters {
  std::int64_t size = 0;
  bool enabled = true;
  bool power_loss_protected = false;
  Nanoseconds acknowledge_time = 0;
  std::int64_t segments = 1;
  Nanoseconds new_segment_time = 0;
  Nanoseconds segment_search_time = 0;
  Nanoseconds destage_delay = 0;

  void visit(FieldVisitor& v) {
    v.number("size", size, Unit::kBytes, 0, 1LL << 36, "memory for written data; 0: none, writes wait for the flash");
    v.toggle("enabled", enabled, "WCE: whether writes are acknowledged from the buffer");
    v.toggle("power_loss_protected", power_loss_protected,
             "whether capacitors keep the buffer: then it acknowledges even with WCE off, and a flush costs nothing");
    v.number("acknowledge_time", acknowledge_time, Unit::kNanoseconds, 0, kSecond,
             "from the data's arrival in the buffer to the acknowledgement");
    v.number("segments", segments, Unit::kCount, 1, 4096, "sequential write streams that the buffer keeps apart");
    v.number("new_segment_time", new_segment_time, Unit::kNanoseconds, 0, kSecond,
             "opening a buffer segment for a write that continues no stream, once its data are in memory");
    v.number("segment_search_time", segment_search_time, Unit::kNanoseconds, 0, kSecond,
             "finding room for such a segment, which goes on while its data come over the link");
    v.number("destage_delay", destage_delay, Unit::kNanoseconds, 0, 100 * kSecond,
             "how long data too little to fill a flash page wait for more");
  }
};

struct ReadCacheParameters {
  std::int64_t size = 0;
  bool enabled = true;
  bool keeps_written = false;
  std::int64_t initial = 0;

  void visit(FieldVisitor& v) {
    v.number("size", size, Unit::kBytes, 0, 1LL << 36, "memory that keeps data that were read, for reading them again");
    v.toggle("enabled", enabled, "not RCD: whether data that were read serve later reads of the same blocks");
    v.toggle("keeps_written", keeps_written,
             "whether it keeps data that were written, too, as a host's file cache does");
    v.number("initial", initial, Unit::kBytes, 0, 1LL << 36,
             "how much of the drive, from its beginning on, is in the cache when the measurement begins");
  }
};

struct ReadAheadParameters {
  bool enabled = true;
  std::int64_t streams = 1;
  std::int64_t trigger_commands = 2;
  std::int64_t window = 0;
  std::int64_t refill = 0;
  std::int64_t max_outstanding = 1;

  void visit(FieldVisitor& v) {
    v.toggle("enabled", enabled, "not DRA: whether sequential readers are read ahead for");
    v.number("streams", streams, Unit::kCount, 1, 64,
             "sequential streams that are recognised at once; 1: interleaved readers reset each other");
    v.number("trigger_commands", trigger_commands, Unit::kCount, 1, 64,
             "contiguous commands that make a stream, after which reading ahead begins");
    v.number("window", window, Unit::kBytes, 0, 1LL << 30, "how far ahead of the reader a stream is fetched");
    v.number("refill", refill, Unit::kBytes, 0, 1LL << 30,
             "how much of the window must be used up before more is fetched");
    v.number("max_outstanding", max_outstanding, Unit::kCount, 1, 65536,
             "reading ahead gives way while more commands than this are in the drive");
  }
};

// All groups of a controller.
struct SsdParameters {
  ControllerParameters controller;
  WriteBufferParameters write_buffer;
  ReadCacheParameters read_cache;
  ReadAheadParameters read_ahead;
};

}  // namespace twin
