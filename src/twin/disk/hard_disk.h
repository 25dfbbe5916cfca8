// A hard disk: an arm that serves a queue, a track buffer with read-ahead, and a write cache.
//
// The write cache stores each sector once. It joins contiguous data, whatever the commands that wrote them, and writes
// joined data back as one stream: the next piece begins under the head where the last one ended, so no revolution is
// lost between the two.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "core/counters.h"
#include "core/device.h"
#include "core/event_queue.h"
#include "disk/disk_parameters.h"
#include "disk/geometry.h"
#include "link/link.h"

namespace twin {

class HardDisk final : public Device, private EventHandler {
 public:
  // Link, queue and counters must outlive the disk. Throws std::invalid_argument like DiskGeometry.
  HardDisk(const DiskParameters& parameters, std::int64_t capacity_bytes, Link& link, EventQueue& events,
           Counters& counters);

  void start(Nanoseconds now, Command& command) override;

 private:
  // A task of the arm: the access of a command, or writing back from the cache (`command` is nullptr).
  struct Access {
    Command* command = nullptr;
    std::uint64_t lba = 0;
    std::uint64_t sectors = 0;
    Nanoseconds queued_ns = 0;
    bool write = false;

    [[nodiscard]] std::uint64_t end() const { return lba + sectors; }
    [[nodiscard]] bool contains(std::uint64_t begin, std::uint64_t end) const {
      return begin >= lba && end <= this->end();
    }
  };

  // The times until the first sector of an access is under the head.
  struct Positioning {
    Nanoseconds seek, rotation;
    bool moves;  // whether the arm changes the cylinder
  };

  // Sectors in the track buffer: [begin, end). While the disk reads on, the newest segment grows at the media rate. A
  // segment keeps the last segment_sectors_ sectors that it has received.
  struct Segment {
    std::uint64_t begin = 0, end = 0;
  };

  void on_event(Nanoseconds now, std::uint64_t what) override;
  void execute(Nanoseconds now, Command& command);
  bool serve_from_buffer(Nanoseconds now, Command& command);
  void begin_write(Nanoseconds now, Command& command);
  bool cache_write(Nanoseconds now, Command& command);
  void add_dirty(Nanoseconds now, std::uint64_t begin, std::uint64_t end);
  Access take_dirty(Nanoseconds now, std::size_t index);
  void start_access(Nanoseconds now);
  void finish_access(Nanoseconds now);
  void complete_flushes(Nanoseconds now);
  [[nodiscard]] Positioning positioning(const Access& access, Nanoseconds now) const;
  [[nodiscard]] std::size_t compared_of(std::size_t queued) const;
  [[nodiscard]] std::size_t nearest(const std::vector<Access>& accesses, Nanoseconds now) const;
  [[nodiscard]] std::uint64_t read_on_end(Nanoseconds now) const;
  void stop_reading_on(Nanoseconds now);
  void extend(Segment& segment, std::uint64_t end) const;

  DiskParameters parameters_;
  DiskGeometry geometry_;
  std::uint64_t capacity_sectors_;
  std::uint64_t segment_sectors_;  // share of a segment in the track buffer
  Link& link_;
  EventQueue& events_;
  Counters& counters_;
  std::vector<Command*> commands_;       // by index
  std::vector<Access> queue_;            // reads, and writes that are not cached
  std::vector<Access> dirty_;            // written data in the cache: no two overlap or are contiguous
  std::uint64_t dirty_sectors_ = 0;      // including those of the current access
  std::deque<Command*> blocked_writes_;  // writes that found the cache full, in order of arrival
  std::vector<Command*> flushes_;
  Access current_;
  bool busy_ = false;
  std::uint64_t head_lba_ = 0;     // sector after the last one that the head passed, or will pass in the current access
  bool wrote_ = false;             // whether the last access, or the current one, is a write
  std::vector<Segment> segments_;  // newest segment last
  bool reading_on_ = false;        // whether the newest segment has been growing since read_on_since_
  Nanoseconds read_on_since_ = 0;
  std::uint64_t command_end_ = 0;  // end of the last read command
};

}  // namespace twin
