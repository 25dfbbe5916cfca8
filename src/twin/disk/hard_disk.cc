// Execution of commands from the track buffer, the write cache or the platters, and scheduling of the arm.
#include "disk/hard_disk.h"

#include <algorithm>
#include <cassert>

namespace twin {
namespace {

// Kinds of events. An event consists of its kind and, for the first two kinds, the index of its command.
enum : std::uint64_t { kDecoded, kRespond, kArmFree };
constexpr unsigned kWhatBits = 2;

// A queued access that has waited this long goes first, wherever it is.
constexpr Nanoseconds kAgeLimit = 500 * kMillisecond;
// The track buffer has at most kSegments segments. At most kCompared accesses are compared to find the nearest.
constexpr std::size_t kSegments = 16;
constexpr std::size_t kCompared = 256;
// Largest access by which contiguous dirty data are written back.
constexpr std::uint64_t kLargestWriteBackSectors = 2048;

std::uint64_t first_sector(const Request& request) { return request.offset_bytes / kSectorBytes; }
std::uint64_t sector_count(const Request& request) { return request.size_bytes / kSectorBytes; }

}  // namespace

HardDisk::HardDisk(const DiskParameters& parameters, std::int64_t capacity_bytes, Link& link, EventQueue& events,
                   Counters& counters)
    : parameters_(parameters),
      geometry_(parameters, capacity_bytes),
      capacity_sectors_(static_cast<std::uint64_t>(capacity_bytes) / kSectorBytes),
      link_(link),
      events_(events),
      counters_(counters) {}

void HardDisk::start(Nanoseconds now, Command& command) {
  if (command.index >= commands_.size()) commands_.resize(2 * command.index + 64);
  commands_[command.index] = &command;
  events_.schedule(now + parameters_.command_time, *this, command.index << kWhatBits | kDecoded);
}

void HardDisk::on_event(Nanoseconds now, std::uint64_t what) {
  switch (what & ((1U << kWhatBits) - 1)) {
    case kDecoded:
      return execute(now, *commands_[what >> kWhatBits]);
    case kRespond:
      return link_.respond(now, *commands_[what >> kWhatBits]);
    case kArmFree:
      return finish_access(now);
    default:
      assert(false);  // no other kind of event is scheduled
  }
}

void HardDisk::execute(Nanoseconds now, Command& command) {
  const Request& request = command.request;
  switch (request.operation) {
    case Operation::kRead:
      if (serve_from_buffer(now, command)) return;
      queue_.push_back({&command, first_sector(request), sector_count(request), now, false});
      return start_access(now);
    case Operation::kWrite:
      return begin_write(now, command);
    case Operation::kFlush:
      flushes_.push_back(&command);
      complete_flushes(now);
      return start_access(now);
    case Operation::kDiscard:
      return link_.respond(now, command);  // a hard disk has nothing to deallocate
  }
}

// Serves a read whose data are in the write cache or the track buffer, or will be there soon because the disk is
// reading on. Returns false for any other read.
bool HardDisk::serve_from_buffer(Nanoseconds now, Command& command) {
  const std::uint64_t begin = first_sector(command.request);
  const std::uint64_t end = begin + sector_count(command.request);
  for (const Access& each : dirty_) {
    if (begin >= each.lba && end <= each.lba + each.sectors) {
      ++counters_.buffer_read_hits;
      link_.respond(now, command);
      return true;
    }
  }
  for (std::size_t i = segments_.size(); i > 0; --i) {
    Segment& segment = segments_[i - 1];
    const bool grows = reading_on_ && i == segments_.size();
    // with the read cache off, data that the host has already received serve no further command
    if (!parameters_.read_cache && !(grows && begin == command_end_)) continue;
    if (begin >= segment.begin && end <= segment.end) {
      ++counters_.buffer_read_hits;
      link_.respond(now, command);
      return true;
    }
    if (!grows || busy_ || begin < segment.begin || begin > read_on_end(now)) continue;
    // the head has passed these sectors or will reach them next
    ++counters_.prefetch_hits;
    const Nanoseconds arrived = read_on_since_ + geometry_.transfer_ns(segment.end, end - segment.end);
    segment.end = command_end_ = end;
    read_on_since_ = arrived;
    events_.schedule(std::max(now, arrived), *this, command.index << kWhatBits | kRespond);
    return true;
  }
  return false;
}

void HardDisk::begin_write(Nanoseconds now, Command& command) {
  const std::uint64_t begin = first_sector(command.request);
  const std::uint64_t sectors = sector_count(command.request);
  // copies of these sectors in the track buffer are out of date
  std::erase_if(segments_, [&](const Segment& each) {
    return begin < each.end + kLargestWriteBackSectors && begin + sectors > each.begin;
  });
  if (segments_.empty()) reading_on_ = false;
  if (!parameters_.write_cache_enabled || parameters_.write_cache == 0) {
    queue_.push_back({&command, begin, sectors, now, true});
    return start_access(now);
  }
  const std::uint64_t room = static_cast<std::uint64_t>(parameters_.write_cache) / kSectorBytes;
  if (dirty_sectors_ + sectors > room && dirty_sectors_ > 0) {
    ++counters_.buffer_full_waits;
    blocked_writes_.push_back(&command);
    return start_access(now);
  }
  dirty_sectors_ += sectors;
  Access* last = dirty_.empty() ? nullptr : &dirty_.back();
  if (last != nullptr && last->lba + last->sectors == begin && last->sectors + sectors <= kLargestWriteBackSectors) {
    last->sectors += sectors;
  } else {
    dirty_.push_back({nullptr, begin, sectors, now, true});
  }
  link_.respond(now, command);
  start_access(now);
}

HardDisk::Positioning HardDisk::positioning(const Access& access, Nanoseconds now) const {
  const ChsAddress target = geometry_.locate(access.lba);
  const Nanoseconds settle = access.write ? parameters_.write_settle : 0;
  const Nanoseconds seek = geometry_.seek_ns(cylinder_, target.cylinder) + settle;
  return {target.cylinder, seek, geometry_.rotation_ns(target, now + seek)};
}

// Returns the index of the access to do next.
std::size_t HardDisk::nearest(const std::vector<Access>& accesses, Nanoseconds now) const {
  if (!parameters_.reorders || now - accesses.front().queued_ns > kAgeLimit) return 0;
  std::size_t best = 0;
  Nanoseconds best_ns = kNever;
  for (std::size_t i = 0; i < std::min(accesses.size(), kCompared); ++i) {
    const auto [cylinder, seek, rotation] = positioning(accesses[i], now);
    if (seek + rotation < best_ns) {
      best = i;
      best_ns = seek + rotation;
    }
  }
  return best;
}

// Starts the next access if the arm is free. Queued commands come first. Dirty data are written back if no command is
// queued, if a write waits for space in the cache, or if a flush waits for the cache to be empty.
void HardDisk::start_access(Nanoseconds now) {
  if (busy_) return;
  std::vector<Access>& from =
      (!blocked_writes_.empty() || !flushes_.empty() || queue_.empty()) && !dirty_.empty() ? dirty_ : queue_;
  if (from.empty()) return;
  const std::size_t index = nearest(from, now);
  current_ = from[index];
  from.erase(from.begin() + static_cast<std::ptrdiff_t>(index));
  stop_reading_on(now);
  const auto [cylinder, seek, rotation] = positioning(current_, now);
  counters_.seeks += cylinder != cylinder_;
  counters_.seek_ns += seek;
  counters_.rotation_ns += rotation;
  busy_ = true;
  cylinder_ = geometry_.locate(current_.lba + current_.sectors - 1).cylinder;
  events_.schedule(now + seek + rotation + geometry_.transfer_ns(current_.lba, current_.sectors), *this, kArmFree);
}

void HardDisk::finish_access(Nanoseconds now) {
  busy_ = false;
  const std::uint64_t end = current_.lba + current_.sectors;
  if (!current_.write && parameters_.track_buffer > 0) {
    if (segments_.size() == kSegments) segments_.erase(segments_.begin());
    segments_.push_back({current_.lba, end});
    command_end_ = end;
    reading_on_ = parameters_.read_ahead;
    read_on_since_ = now;
  }
  if (current_.command != nullptr) {
    link_.respond(now, *current_.command);
  } else {
    dirty_sectors_ -= current_.sectors;
    std::vector<Command*> blocked;
    blocked.swap(blocked_writes_);
    for (Command* each : blocked) begin_write(now, *each);
    complete_flushes(now);
  }
  start_access(now);
}

void HardDisk::complete_flushes(Nanoseconds now) {
  if (dirty_sectors_ > 0) return;
  for (Command* each : flushes_) link_.respond(now, *each);
  flushes_.clear();
}

// Returns the sector up to which the disk has read on by now. It reads on while the buffer has space. The model assumes
// that stopping at a full buffer, and continuing when the reader has freed space, takes no time.
std::uint64_t HardDisk::read_on_end(Nanoseconds now) const {
  const Segment& segment = segments_.back();
  const std::uint64_t room = static_cast<std::uint64_t>(parameters_.track_buffer) / kSectorBytes / kSegments;
  const std::uint64_t limit = std::min(segment.end + room, capacity_sectors_);
  // bisection: the time to reach a sector grows with its number
  std::uint64_t low = segment.end;
  std::uint64_t high = limit;
  while (low < high) {
    const std::uint64_t middle = low + (high - low + 1) / 2;
    if (geometry_.transfer_ns(segment.end, middle - segment.end) <= now - read_on_since_) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

void HardDisk::stop_reading_on(Nanoseconds now) {
  if (!reading_on_) return;
  segments_.back().end = read_on_end(now);
  reading_on_ = false;
}

}  // namespace twin
