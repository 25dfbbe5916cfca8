// Parameters of an SSD's controller: its processors, write buffer, read cache and read-ahead.
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
             "time of a read command in the controller before its data are requested");
    v.number("write_command_time", write_command_time, Unit::kNanoseconds, 0, kSecond,
             "time of a write, flush or discard command in the controller");
    v.number(
        "read_interval", read_interval, Unit::kNanoseconds, 0, kSecond,
        "minimum time between two read commands: that of the slowest stage of the controller, which processes several "
        "commands at once");
    v.number("write_interval", write_interval, Unit::kNanoseconds, 0, kSecond,
             "minimum time between two write, flush or discard commands");
    v.number("discard_unit_time", discard_unit_time, Unit::kNanoseconds, 0, kMillisecond,
             "time to clear the map entry of each discarded mapping unit");
    v.number("read_memory_rate", read_memory_rate, Unit::kBytesPerSecond, 1'000'000, 1'000'000'000'000,
             "rate at which the data of one read command pass through the buffer memory, in parallel with the link");
    v.number("write_memory_rate", write_memory_rate, Unit::kBytesPerSecond, 1'000'000, 1'000'000'000'000,
             "rate at which the data of one write command pass from the link into the buffer memory");
    v.ratio("throttle", throttle, 0, 0.95,
            "share of each 10 ms in which a drive that is too hot accepts no command; 0: no throttling");
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
    v.number("size", size, Unit::kBytes, 0, 1LL << 36,
             "memory for written data; 0: no buffer, writes wait for the flash");
    v.toggle("enabled", enabled, "WCE: whether writes are acknowledged from the buffer");
    v.toggle("power_loss_protected", power_loss_protected,
             "whether capacitors preserve the buffer at power loss; if so, writes are acknowledged from it even with "
             "WCE off, "
             "and a flush takes no time");
    v.number("acknowledge_time", acknowledge_time, Unit::kNanoseconds, 0, kSecond,
             "time from the arrival of the data in the buffer to the acknowledgement");
    v.number("segments", segments, Unit::kCount, 1, 4096,
             "number of sequential write streams that the buffer distinguishes");
    v.number("new_segment_time", new_segment_time, Unit::kNanoseconds, 0, kSecond,
             "time to open a buffer segment for a write that continues no stream, after its data have arrived");
    v.number("segment_search_time", segment_search_time, Unit::kNanoseconds, 0, kSecond,
             "time to find space for such a segment, in parallel with the transfer of its data");
    v.number("destage_delay", destage_delay, Unit::kNanoseconds, 0, 100 * kSecond,
             "time for which data that do not fill a flash page wait for more");
  }
};

struct ReadCacheParameters {
  std::int64_t size = 0;
  bool enabled = true;
  bool keeps_written = false;
  std::int64_t initial = 0;

  void visit(FieldVisitor& v) {
    v.number("size", size, Unit::kBytes, 0, 1LL << 36, "memory for data that were read, to serve repeated reads");
    v.toggle("enabled", enabled, "not RCD: whether cached data serve later reads of the same blocks");
    v.toggle("keeps_written", keeps_written, "whether the cache also keeps written data, as a host's file cache does");
    v.number("initial", initial, Unit::kBytes, 0, 1LL << 36,
             "amount of data, from the beginning of the drive, that is in the cache when the measurement begins");
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
    v.toggle("enabled", enabled, "not DRA: whether data are prefetched for sequential readers");
    v.number("streams", streams, Unit::kCount, 1, 64,
             "number of sequential streams that are recognized at once; 1: interleaved readers reset each other");
    v.number("trigger_commands", trigger_commands, Unit::kCount, 1, 64,
             "number of contiguous commands after which prefetching begins");
    v.number("window", window, Unit::kBytes, 0, 1LL << 30, "amount of data that is prefetched ahead of a reader");
    v.number("refill", refill, Unit::kBytes, 0, 1LL << 30,
             "amount of the window that must be used up before more is prefetched");
    v.number("max_outstanding", max_outstanding, Unit::kCount, 1, 65536,
             "nothing is prefetched while the drive holds more commands than this");
  }
};

// All parameter groups of a controller.
struct SsdParameters {
  ControllerParameters controller;
  WriteBufferParameters write_buffer;
  ReadCacheParameters read_cache;
  ReadAheadParameters read_ahead;
};

}  // namespace twin
