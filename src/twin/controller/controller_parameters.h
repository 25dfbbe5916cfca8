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
  double reordering = 0;
  double read_locality = 0;
  std::int64_t completion_window = 0;

  void visit(FieldVisitor& v) {
    v.time("read_command_time", read_command_time, kSecond,
           "controller time of a read command until it requests its data");
    v.time("write_command_time", write_command_time, kSecond, "controller time of a write, flush or discard");
    v.time("read_interval", read_interval, kSecond,
           "minimum time between two read commands: time of the controller's slowest stage");
    v.time("write_interval", write_interval, kSecond, "minimum time between two write, flush or discard commands");
    v.time("discard_unit_time", discard_unit_time, kMillisecond, "time to clear the map entry of a discarded unit");
    v.rate("read_memory_rate", read_memory_rate, 1'000'000, 1'000'000'000'000,
           "rate at which the data of one read command pass through the buffer memory, in parallel with the link");
    v.rate("write_memory_rate", write_memory_rate, 1'000'000, 1'000'000'000'000,
           "rate at which the data of one write command pass from the link into the buffer memory");
    v.ratio("throttle", throttle, 0, 0.95,
            "share of each 10 ms in which a drive that is too hot accepts no command; 0: no throttling");
    v.optional_ratio("reordering", reordering, 0, 1,
                     "share of commands for which the controller takes a random one of those that wait for it, in "
                     "place of the oldest; 0: in order of arrival");
    v.optional_ratio("read_locality", read_locality, 0, 1,
                     "share of a job's reads whose data lie in the flash beside those of its previous read, as after "
                     "writes with the same random offsets; 0: each where the map says");
    v.optional_count("completion_window", completion_window, 0, 65536,
                     "number of the oldest outstanding reads of a job's queue among which a read must be to complete; "
                     "1: in order of arrival, 0: in any order");
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
    v.size("size", size, 0, 1LL << 36, "memory for written data; 0: no buffer, writes wait for the flash");
    v.toggle("enabled", enabled, "WCE: whether writes are acknowledged from the buffer");
    v.toggle("power_loss_protected", power_loss_protected,
             "whether capacitors preserve the buffer at power loss; if so, WCE off and flushes have no effect");
    v.time("acknowledge_time", acknowledge_time, kSecond, "time from arrival in the buffer to acknowledgement");
    v.count("segments", segments, 1, 4096, "number of sequential write streams that the buffer distinguishes");
    v.time("new_segment_time", new_segment_time, kSecond,
           "time to open a buffer segment for a write that continues no stream, after its data have arrived");
    v.time("segment_search_time", segment_search_time, kSecond,
           "time to find space for a new buffer segment, in parallel with the transfer of its data");
    v.time("destage_delay", destage_delay, 100 * kSecond, "time for which data that do not fill a page wait");
  }
};

struct ReadCacheParameters {
  std::int64_t size = 0;
  bool enabled = true;
  bool keeps_written = false;
  std::int64_t initial = 0;

  void visit(FieldVisitor& v) {
    v.size("size", size, 0, 1LL << 36, "memory for data that were read, to serve repeated reads");
    v.toggle("enabled", enabled, "not RCD: whether cached data serve later reads of the same blocks");
    v.toggle("keeps_written", keeps_written, "whether the cache also keeps written data, as a host's file cache does");
    v.size("initial", initial, 0, 1LL << 36, "amount of data from the drive's beginning that is cached at the start");
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
    v.count("streams", streams, 1, 64,
            "sequential streams that are recognized at once; 1: interleaved readers reset each other");
    v.count("trigger_commands", trigger_commands, 1, 64, "contiguous commands that start prefetching");
    v.size("window", window, 0, 1LL << 30, "amount of data that is prefetched ahead of a reader");
    v.size("refill", refill, 0, 1LL << 30, "amount of the window that must be used up before more is prefetched");
    v.count("max_outstanding", max_outstanding, 1, 65536, "no prefetching while the drive holds more commands");
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
