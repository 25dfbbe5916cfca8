// Serves commands from the track buffer, the write cache or the platters, in the order that the arm chooses.
#include "disk/hard_disk.h"

#include <algorithm>
#include <cassert>

namespace twin {
namespace {

enum : std::uint64_t { kDecoded, kAnswer, kArmFree };
constexpr unsigned kWhatBits = 2;

// A queued command that has waited this long goes first, however far it is.
constexpr Nanoseconds kAgeLimit = 500 * kMillisecond;
// The track buffer has at most kSegments segments; at most kCompared accesses are compared to find the nearest.
constexpr std::size_t kSegments = 16;
constexpr std::size_t kCompared = 256;
// Contiguous dirty data are written back by one access, up to this size.
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
      return decoded(now, *commands_[what >> kWhatBits]);
    case kAnswer:
      return link_.respond(now, *commands_[what >> kWhatBits]);
    case kArmFree:
      return finish_access(now);
    default:
      assert(false);  // no other kind of event is scheduled
  }
}

void HardDisk::decoded(Nanoseconds now, Command& command) {
  const Request& request = command.request;
  switch (request.operation) {
    case Operation::kRead:
      if (serve_from_buffer(now, command)) return;
      waiting_.push_back({&command, first_sector(request), sector_count(request), now, false});
      return move_arm(now);
    case Operation::kWrite:
      return take_write(now, command);
    case Operation::kFlush:
      flushes_.push_back(&command);
      end_flushes(now);
      return move_arm(now);
    case Operation::kDiscard:
      return link_.respond(now, command);  // a hard disk has nothing to deallocate
  }
}

// Serves a read whose data are in the track buffer, or will be there soon because the disk is reading on.
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
    // With the read cache off, the part of a segment that the host has already received serves no further command.
    if (!parameters_.read_cache && !(grows && begin == command_end_)) continue;
    if (begin >= segment.begin && end <= segment.end) {
      ++counters_.buffer_read_hits;
      link_.respond(now, command);
      return true;
    }
    if (!grows || busy_ || begin < segment.begin || begin > read_on_end(now)) continue;
    // the head has passed these sectors, or is about to reach them
    ++counters_.prefetch_hits;
    const Nanoseconds there = read_on_since_ + geometry_.transfer_ns(segment.end, end - segment.end);
    segment.end = command_end_ = end;
    read_on_since_ = there;
    events_.schedule(std::max(now, there), *this, command.index << kWhatBits | kAnswer);
    return true;
  }
  return false;
}

void HardDisk::take_write(Nanoseconds now, Command& command) {
  const std::uint64_t begin = first_sector(command.request);
  const std::uint64_t sectors = sector_count(command.request);
  // the track buffer's copies of these sectors are out of date
  std::erase_if(segments_, [&](const Segment& each) {
    return begin < each.end + kLargestWriteBackSectors && begin + sectors > each.begin;
  });
  if (segments_.empty()) reading_on_ = false;
  if (!parameters_.write_cache_enabled || parameters_.write_cache == 0) {
    waiting_.push_back({&command, begin, sectors, now, true});
    return move_arm(now);
  }
  const std::uint64_t room = static_cast<std::uint64_t>(parameters_.write_cache) / kSectorBytes;
  if (dirty_sectors_ + sectors > room && dirty_sectors_ > 0) {
    ++counters_.buffer_full_waits;
    blocked_.push_back(&command);
    return move_arm(now);
  }
  dirty_sectors_ += sectors;
  Access* last = dirty_.empty() ? nullptr : &dirty_.back();
  if (last != nullptr && last->lba + last->sectors == begin && last->sectors + sectors <= kLargestWriteBackSectors) {
    last->sectors += sectors;
  } else {
    dirty_.push_back({nullptr, begin, sectors, now, true});
  }
  link_.respond(now, command);
  move_arm(now);
}

Nanoseconds HardDisk::positioning_ns(const Access& access, Nanoseconds now) const {
  const ChsAddress chs = geometry_.locate(access.lba);
  Nanoseconds seek = geometry_.seek_ns(cylinder_, chs.cylinder);
  if (access.write) seek += parameters_.write_settle;
  return seek + geometry_.rotation_ns(chs, now + seek);
}

std::size_t HardDisk::nearest(const std::vector<Access>& accesses, Nanoseconds now) const {
  if (!parameters_.reorders || now - accesses.front().since_ns > kAgeLimit) return 0;
  std::size_t best = 0;
  Nanoseconds best_ns = kNever;
  for (std::size_t i = 0; i < std::min(accesses.size(), kCompared); ++i) {
    const Nanoseconds time = positioning_ns(accesses[i], now);
    if (time < best_ns) {
      best = i;
      best_ns = time;
    }
  }
  return best;
}

// Starts the next access if the arm is free. Commands come first. Dirty data are written back when no command waits,
// when a write waits for room in the cache, or when a flush waits for the cache to be empty.
void HardDisk::move_arm(Nanoseconds now) {
  if (busy_) return;
  std::vector<Access>& from =
      (!blocked_.empty() || !flushes_.empty() || waiting_.empty()) && !dirty_.empty() ? dirty_ : waiting_;
  if (from.empty()) return;
  const std::size_t index = nearest(from, now);
  current_ = from[index];
  from.erase(from.begin() + static_cast<std::ptrdiff_t>(index));
  stop_reading_on(now);
  const ChsAddress target = geometry_.locate(current_.lba);
  const Nanoseconds seek =
      geometry_.seek_ns(cylinder_, target.cylinder) + (current_.write ? parameters_.write_settle : 0);
  const Nanoseconds rotation = geometry_.rotation_ns(target, now + seek);
  counters_.seeks += target.cylinder != cylinder_;
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
    blocked.swap(blocked_);
    for (Command* each : blocked) take_write(now, *each);
    end_flushes(now);
  }
  move_arm(now);
}

void HardDisk::end_flushes(Nanoseconds now) {
  if (dirty_sectors_ > 0) return;
  for (Command* each : flushes_) link_.respond(now, *each);
  flushes_.clear();
}

// The sector up to which the disk has read on by now. It reads on as far as the buffer has room; the model charges
// nothing for stopping when the buffer is full and going on when the reader has made room.
std::uint64_t HardDisk::read_on_end(Nanoseconds now) const {
  const Segment& segment = segments_.back();
  const std::uint64_t room = static_cast<std::uint64_t>(parameters_.track_buffer) / kSectorBytes / kSegments;
  const std::uint64_t limit = std::min(segment.end + room, capacity_sectors_);
  // Bisection: the time to reach a sector grows with its number.
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
