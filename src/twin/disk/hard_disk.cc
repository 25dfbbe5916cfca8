// Execution of commands from the track buffer, the write cache or the platters, and scheduling of the arm.
#include "disk/hard_disk.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace twin {
namespace {

// Kinds of events. An event consists of its kind and, for the first two kinds, the index of its command.
enum : std::uint64_t { kDecoded, kRespond, kArmFree };
constexpr unsigned kWhatBits = 2;

// The track buffer has at most kSegments segments. At most kCompared accesses are compared to find the nearest.
constexpr std::size_t kSegments = 16;
constexpr std::size_t kCompared = 256;
// Largest access by which dirty data are written back. Its space in the cache becomes free at its end.
constexpr std::uint64_t kLargestWriteBackSectors = 2048;

std::uint64_t first_sector(const Request& request) { return request.offset_bytes / kSectorBytes; }
std::uint64_t sector_count(const Request& request) { return request.size_bytes / kSectorBytes; }

}  // namespace

HardDisk::HardDisk(const DiskParameters& parameters, std::int64_t capacity_bytes, Link& link, EventQueue& events,
                   Counters& counters)
    : parameters_(parameters),
      geometry_(parameters, capacity_bytes),
      capacity_sectors_(static_cast<std::uint64_t>(capacity_bytes) / kSectorBytes),
      segment_sectors_(static_cast<std::uint64_t>(parameters.track_buffer) / kSectorBytes / kSegments),
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
  const auto contains = [&](const Access& each) { return each.contains(begin, end); };
  const bool writing_back = busy_ && current_.command == nullptr;
  if ((writing_back && contains(current_)) || std::any_of(dirty_.begin(), dirty_.end(), contains)) {
    ++counters_.buffer_read_hits;
    link_.respond(now, command);
    return true;
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
    extend(segment, end);
    command_end_ = end;
    read_on_since_ = arrived;
    events_.schedule(std::max(now, arrived), *this, command.index << kWhatBits | kRespond);
    return true;
  }
  return false;
}

void HardDisk::begin_write(Nanoseconds now, Command& command) {
  const std::uint64_t begin = first_sector(command.request);
  const std::uint64_t sectors = sector_count(command.request);
  // copies of these sectors in the track buffer are out of date, and so are those that it would receive by reading on
  const auto outdated = [&](const Segment& each) {
    return begin < each.end + segment_sectors_ && begin + sectors > each.begin;
  };
  if (reading_on_ && outdated(segments_.back())) stop_reading_on(now);
  std::erase_if(segments_, outdated);
  if (!parameters_.write_cache_enabled || parameters_.write_cache == 0) {
    queue_.push_back({&command, begin, sectors, now, true});
    return start_access(now);
  }
  if (!blocked_writes_.empty() || !cache_write(now, command)) {
    ++counters_.buffer_full_waits;
    blocked_writes_.push_back(&command);
  }
  start_access(now);
}

// Stores the data of a write in the cache and acknowledges it. Returns false if there is no space.
bool HardDisk::cache_write(Nanoseconds now, Command& command) {
  const std::uint64_t begin = first_sector(command.request);
  const std::uint64_t sectors = sector_count(command.request);
  const std::uint64_t room = static_cast<std::uint64_t>(parameters_.write_cache) / kSectorBytes;
  if (dirty_sectors_ + sectors > room && dirty_sectors_ > 0) return false;
  add_dirty(now, begin, begin + sectors);
  link_.respond(now, command);
  return true;
}

// Adds the sectors from `begin` to before `end` to the dirty data, joined with those that they overlap or adjoin. The
// joined data take the place in the order, and the age, of the oldest of them.
void HardDisk::add_dirty(Nanoseconds now, std::uint64_t begin, std::uint64_t end) {
  Access joined{nullptr, begin, end - begin, now, true};
  const auto adjoins = [&](const Access& each) { return joined.lba <= each.end() && each.lba <= joined.end(); };
  const auto first = std::find_if(dirty_.begin(), dirty_.end(), adjoins);
  const std::size_t place = static_cast<std::size_t>(first - dirty_.begin());
  // what adjoins the new sectors before them, and what adjoins them after, do not adjoin each other
  for (auto each = first; each != dirty_.end();) {
    if (!adjoins(*each)) {
      ++each;
      continue;
    }
    const std::uint64_t joined_end = std::max(joined.end(), each->end());
    joined.lba = std::min(joined.lba, each->lba);
    joined.sectors = joined_end - joined.lba;
    joined.queued_ns = std::min(joined.queued_ns, each->queued_ns);
    dirty_sectors_ -= each->sectors;
    each = dirty_.erase(each);
  }
  dirty_sectors_ += joined.sectors;
  dirty_.insert(dirty_.begin() + static_cast<std::ptrdiff_t>(place), joined);
}

// Takes the beginning of dirty data out, to be written back. The rest joins the end of the order, so that a stream of
// writes does not keep the oldest place, and other data are written back in their turn.
HardDisk::Access HardDisk::take_dirty(Nanoseconds now, std::size_t index) {
  Access piece = dirty_[index];
  dirty_.erase(dirty_.begin() + static_cast<std::ptrdiff_t>(index));
  if (piece.sectors > kLargestWriteBackSectors) {
    const std::uint64_t rest = piece.sectors - kLargestWriteBackSectors;
    piece.sectors = kLargestWriteBackSectors;
    dirty_.push_back({nullptr, piece.end(), rest, now, true});
  }
  return piece;
}

// The head stays where the last access or reading on ended. For a write it must settle, unless it goes on writing
// within the length of a track: the skew between tracks leaves the time for that.
HardDisk::Positioning HardDisk::positioning(const Access& access, Nanoseconds now) const {
  const ChsAddress target = geometry_.locate(access.lba);
  const std::int64_t cylinder = geometry_.locate(head_lba_ - std::min<std::uint64_t>(head_lba_, 1)).cylinder;
  const std::uint64_t distance = access.lba > head_lba_ ? access.lba - head_lba_ : head_lba_ - access.lba;
  const bool writes_on = wrote_ && distance < static_cast<std::uint64_t>(target.track_sectors);
  const Nanoseconds settle = access.write && !writes_on ? parameters_.write_settle : 0;
  const Nanoseconds seek = geometry_.seek_ns(cylinder, target.cylinder) + settle;
  return {seek, geometry_.rotation_ns(target, now + seek), target.cylinder != cylinder};
}

// Returns how many of the queued accesses, oldest first, are compared to find the nearest.
std::size_t HardDisk::compared_of(std::size_t queued) const {
  if (parameters_.reorder_share == 0) return queued;
  return static_cast<std::size_t>(std::ceil(parameters_.reorder_share * static_cast<double>(queued)));
}

// Returns the index of the access to do next.
std::size_t HardDisk::nearest(const std::vector<Access>& accesses, Nanoseconds now) const {
  if (!parameters_.reorders || now - accesses.front().queued_ns > parameters_.longest_wait) return 0;
  const std::size_t compared = std::min(compared_of(accesses.size()), kCompared);
  std::size_t best = 0;
  Nanoseconds best_ns = kNever;
  for (std::size_t i = 0; i < compared; ++i) {
    const Positioning way = positioning(accesses[i], now);
    if (way.seek + way.rotation < best_ns) {
      best = i;
      best_ns = way.seek + way.rotation;
    }
  }
  return best;
}

// Starts the next access if the arm is free. Queued commands come first. Dirty data are written back if no command is
// queued, if a write waits for space in the cache, or if a flush waits for the cache to be empty.
void HardDisk::start_access(Nanoseconds now) {
  if (busy_) return;
  const bool write_back = (!blocked_writes_.empty() || !flushes_.empty() || queue_.empty()) && !dirty_.empty();
  std::vector<Access>& from = write_back ? dirty_ : queue_;
  if (from.empty()) return;
  stop_reading_on(now);
  const std::size_t index = nearest(from, now);
  const auto [seek, rotation, moves] = positioning(from[index], now);
  counters_.seeks += moves;
  counters_.seek_ns += seek;
  counters_.rotation_ns += rotation;
  if (write_back) {
    current_ = take_dirty(now, index);
  } else {
    current_ = from[index];
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(index));
  }
  busy_ = true;
  head_lba_ = current_.end();
  wrote_ = current_.write;
  events_.schedule(now + seek + rotation + geometry_.transfer_ns(current_.lba, current_.sectors), *this, kArmFree);
}

void HardDisk::finish_access(Nanoseconds now) {
  busy_ = false;
  if (!current_.write && parameters_.track_buffer > 0) {
    if (segments_.size() == kSegments) segments_.erase(segments_.begin());
    segments_.push_back({current_.lba, current_.lba});
    extend(segments_.back(), current_.end());
    command_end_ = current_.end();
    reading_on_ = parameters_.read_ahead;
    read_on_since_ = now;
  }
  if (current_.command != nullptr) {
    link_.respond(now, *current_.command);
  } else {
    dirty_sectors_ -= current_.sectors;
    while (!blocked_writes_.empty() && cache_write(now, *blocked_writes_.front())) blocked_writes_.pop_front();
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
  const std::uint64_t limit = std::min(segment.end + segment_sectors_, capacity_sectors_);
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
  head_lba_ = read_on_end(now);
  extend(segments_.back(), head_lba_);
  reading_on_ = false;
}

// Records that a segment has received the sectors before `end`. What no longer fits into its share of the buffer is
// overwritten.
void HardDisk::extend(Segment& segment, std::uint64_t end) const {
  segment.end = end;
  segment.begin = std::max(segment.begin, end - std::min(end, segment_sectors_));
}

}  // namespace twin
