// Mapping, programming, collecting.
#include "ftl/page_ftl.h"

#include <algorithm>
#include <cassert>
#include <stdexcept>
#include <string>

namespace twin {
namespace {

enum : std::uint64_t { kSensed, kFetched, kMapRead, kProgrammed, kBackground };
constexpr unsigned kWhatBits = 3;

// A page goes over its channel in pieces, so that the first can leave the drive while the others follow.
constexpr std::uint64_t kFetchBytes = 4096;

// Collection counts what it owes in parts of a unit.
constexpr std::int64_t kOwedParts = 1024;

constexpr std::uint32_t kInitially = 0;
constexpr std::uint32_t kUnmapped = 1;
constexpr std::uint32_t kFirstPlace = 2;

std::uint32_t whole(double value) { return static_cast<std::uint32_t>(value); }

BlockShape shape_of(const Parameters& parameters) {
  const FlashParameters& flash = parameters.flash;
  const std::int64_t unit = parameters.page_mapping.unit;
  if (flash.page % unit != 0) throw std::invalid_argument("flash.page: must be a multiple of page_mapping.unit");
  if (parameters.capacity.size % unit != 0) {
    throw std::invalid_argument("capacity.size: must be a multiple of page_mapping.unit");
  }
  BlockShape shape;
  shape.dies = static_cast<std::uint32_t>(flash.channels * flash.dies_per_channel);
  shape.rows = static_cast<std::uint32_t>(flash.pages_per_block);
  shape.row_units = static_cast<std::uint32_t>(flash.planes * (flash.page / unit));
  const double units = static_cast<double>(parameters.capacity.size) / static_cast<double>(unit);
  const double blocks = units * (1 + parameters.ftl.over_provisioning) / shape.block_units();
  if (blocks * shape.block_units() > 4e9) throw std::invalid_argument("capacity.size: more units than can be mapped");
  // as many on each die
  shape.blocks = (static_cast<std::uint32_t>(blocks) + shape.dies - 1) / shape.dies * shape.dies;
  const std::uint32_t needed = static_cast<std::uint32_t>(units / shape.block_units()) + 4 * shape.dies + 2;
  if (shape.blocks < needed) {
    throw std::invalid_argument("ftl.over_provisioning: leaves " + std::to_string(shape.blocks) +
                                " blocks, but with an open block on each die for writing and for collecting at least " +
                                std::to_string(needed) + " are needed");
  }
  return shape;
}

// Free blocks below which collection must begin, so that every die has one to open for either frontier.
std::uint32_t least_free(const BlockShape& shape, double used_ratio) {
  return std::max(whole((1 - used_ratio) * shape.blocks), 2 * shape.dies + 1);
}

std::uint32_t start_of(const Parameters& parameters, const BlockShape& shape, std::uint32_t units) {
  const std::uint32_t free_blocks = least_free(shape, parameters.page_mapping.gc_start);
  const std::uint32_t data_blocks = (units + shape.block_units() - 1) / shape.block_units();
  if (shape.blocks - free_blocks < data_blocks) {
    throw std::invalid_argument("page_mapping.gc_start: keeps " + std::to_string(free_blocks) + " of " +
                                std::to_string(shape.blocks) + " blocks free, but the capacity takes " +
                                std::to_string(data_blocks));
  }
  return free_blocks;
}

}  // namespace

PageFtl::PageFtl(const Parameters& parameters, EventQueue& events, FtlClient& client, Counters& counters)
    : events_(events),
      client_(client),
      counters_(counters),
      unit_bytes_(static_cast<std::uint32_t>(parameters.page_mapping.unit)),
      units_(static_cast<std::uint32_t>(parameters.capacity.size / parameters.page_mapping.unit)),
      shape_(shape_of(parameters)),
      start_collecting_(start_of(parameters, shape_, units_)),
      stop_collecting_(std::max(start_collecting_, least_free(shape_, parameters.page_mapping.gc_stop))),
      collect_whole_blocks_(parameters.page_mapping.gc_whole_blocks),
      initial_(static_cast<InitialState>(parameters.ftl.initial_state), shape_, units_, start_collecting_),
      pool_(shape_, initial_),
      flash_(parameters.flash, counters),
      cache_(parameters.page_mapping.map_cache_coverage < 1
                 ? std::max(1U, whole(parameters.page_mapping.map_cache_coverage * units_))
                 : 0,
             units_, static_cast<std::uint32_t>(parameters.page_mapping.map_page_entries),
             parameters.page_mapping.map_batch_fetch),
      map_(units_),
      owner_(static_cast<std::size_t>(shape_.blocks) * shape_.block_units()),
      dead_(static_cast<std::size_t>(shape_.blocks) * shape_.block_units() / 64 + 1) {
  if (parameters.page_mapping.gc_stop > parameters.page_mapping.gc_start) {
    throw std::invalid_argument("page_mapping.gc_stop: must not be more than gc_start");
  }
  for (Frontier* frontier : {&host_, &moved_}) {
    frontier->block.assign(shape_.dies, BlockPool::kNoBlock);
    frontier->row.assign(shape_.dies, 0);
  }
  moving_.reserve(shape_.row_units);
}

std::uint32_t PageFtl::place_of(std::uint32_t unit) const {
  const std::uint32_t entry = map_[unit];
  if (entry >= kFirstPlace) return entry - kFirstPlace;
  return entry == kInitially ? initial_.place_of(unit) : kNoUnit;
}

// ---- reading

bool PageFtl::read(Nanoseconds now, std::uint64_t unit, std::uint32_t count, std::uint64_t size_bytes,
                   std::uint64_t token) {
  touched_ = true;
  if (free_operations_.empty()) {
    free_operations_.push_back(static_cast<std::uint32_t>(operations_.size()));
    operations_.emplace_back();
  }
  const std::uint32_t number = free_operations_.back();
  free_operations_.pop_back();
  operations_[number] = {token, 0, static_cast<std::uint32_t>(unit), count, size_bytes};
  if (!cache_.covers_all()) {
    look_up(now, unit, count, false, counters_.map_read_hits, counters_.map_read_misses);
    if (!map_pages_.empty()) {
      // the data can be read once all of the map is there
      Nanoseconds there = now;
      for (const std::uint32_t page : map_pages_) {
        const std::uint32_t die = page % shape_.dies;
        there = std::max(there, flash_.fetch(flash_.sense(now, die), die, unit_bytes_));
      }
      operations_[number].pending = 1;
      events_.schedule(there, *this, static_cast<std::uint64_t>(number) << kWhatBits | kMapRead);
      return true;
    }
  }
  read_data(now, number);
  if (operations_[number].pending > 0) return true;
  free_operations_.push_back(number);
  return false;
}

// Reads the rows in which the operation's units lie; units that follow each other in a row are read at once.
void PageFtl::read_data(Nanoseconds now, std::uint32_t number) {
  const std::uint32_t first = operations_[number].unit;
  const std::uint32_t count = operations_[number].count;
  std::uint64_t left = operations_[number].size_bytes;
  for (std::uint32_t i = 0; i < count;) {
    const std::uint32_t place = place_of(first + i);
    std::uint32_t run = 1;
    if (place == kNoUnit) {
      left -= std::min<std::uint64_t>(left, unit_bytes_);
      ++i;
      continue;
    }
    const std::uint32_t row = place / shape_.row_units;
    while (i + run < count) {
      const std::uint32_t next = place_of(first + i + run);
      if (next == kNoUnit || next / shape_.row_units != row) break;
      ++run;
    }
    const std::uint64_t wanted = std::min<std::uint64_t>(left, static_cast<std::uint64_t>(run) * unit_bytes_);
    left -= wanted;
    ++operations_[number].pending;
    sense(now, number, shape_.die_of(place / shape_.block_units()), wanted);
    i += run;
  }
}

void PageFtl::sense(Nanoseconds now, std::uint32_t operation, std::uint32_t die, std::uint64_t size_bytes) {
  if (free_sensings_.empty()) {
    free_sensings_.push_back(static_cast<std::uint32_t>(sensings_.size()));
    sensings_.emplace_back();
  }
  const std::uint32_t number = free_sensings_.back();
  free_sensings_.pop_back();
  sensings_[number] = {operation, die, size_bytes};
  events_.schedule(flash_.sense(now, die), *this, static_cast<std::uint64_t>(number) << kWhatBits | kSensed);
}

void PageFtl::fetch_next(Nanoseconds now, std::uint32_t number) {
  const Sensing& sensing = sensings_[number];
  const std::uint64_t piece = std::min<std::uint64_t>(sensing.left_bytes, kFetchBytes);
  events_.schedule(flash_.fetch(now, sensing.die, piece), *this,
                   static_cast<std::uint64_t>(number) << kWhatBits | kFetched);
}

void PageFtl::part_read(Nanoseconds now, std::uint32_t number) {
  if (--operations_[number].pending > 0) return;
  const std::uint64_t token = operations_[number].token;
  free_operations_.push_back(number);
  client_.read_done(now, token);
}

void PageFtl::on_event(Nanoseconds now, std::uint64_t what) {
  const auto number = static_cast<std::uint32_t>(what >> kWhatBits);
  switch (what & ((1U << kWhatBits) - 1)) {
    case kSensed:
      return fetch_next(now, number);
    case kFetched: {
      Sensing& sensing = sensings_[number];
      const std::uint32_t operation = sensing.operation;
      const std::uint64_t arrived = std::min<std::uint64_t>(sensing.left_bytes, kFetchBytes);
      sensing.left_bytes -= arrived;
      // the client may start further reads while it is told
      const bool more = sensing.left_bytes > 0;
      client_.read_progress(now, operations_[operation].token, arrived);
      if (more) return fetch_next(now, number);
      free_sensings_.push_back(number);
      return part_read(now, operation);
    }
    case kMapRead:
      read_data(now, number);
      return part_read(now, number);
    case kProgrammed: {
      const Writing writing = writings_[number];
      free_writings_.push_back(number);
      return client_.write_done(now, writing.token, writing.count);
    }
    case kBackground:
      background_ = false;
      if (touched_ || pool_.free_blocks() >= stop_collecting_) return;
      if (!collect_row(now)) return;
      background_ = true;
      events_.schedule(std::max(gc_until_, now + 1), *this, kBackground);
      return;
  }
}

// ---- the map

// Looks `count` entries up in the cache; leaves the pages of the map that have to be read in map_pages_.
void PageFtl::look_up(Nanoseconds now, std::uint64_t unit, std::uint64_t count, bool change, std::uint64_t& hits,
                      std::uint64_t& misses) {
  map_pages_.clear();
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto each = static_cast<std::uint32_t>(unit + i);
    const MappingCache::Lookup found = cache_.look_up(each, change);
    ++(found.hit ? hits : misses);
    if (!found.hit && (map_pages_.empty() || map_pages_.back() != cache_.page_of(each))) {
      map_pages_.push_back(cache_.page_of(each));
    }
    for (std::uint32_t page = 0; page < found.pages_written; ++page) {
      ++counters_.translation_writes;
      flash_.program(now, static_cast<std::uint32_t>(counters_.translation_writes % shape_.dies), unit_bytes_);
    }
  }
  counters_.translation_reads += map_pages_.size();
  ++(map_pages_.empty() ? counters_.map_request_hits : counters_.map_request_misses);
}

bool PageFtl::is_valid(std::uint32_t place) const {
  if ((dead_[place / 64] >> (place % 64) & 1) != 0) return false;
  // places of an initial block that held garbage from the beginning have no owner
  const std::uint32_t block = place / shape_.block_units();
  return !pool_.is_initial(block) || initial_.unit_at(place) != kNoUnit;
}

std::uint32_t PageFtl::owner_of(std::uint32_t place) const {
  const std::uint32_t owner = owner_[place];
  return owner == 0 ? initial_.unit_at(place) : owner - 1;
}

void PageFtl::unmap(std::uint32_t unit) {
  const std::uint32_t place = place_of(unit);
  if (place == kNoUnit) return;
  dead_[place / 64] |= 1ULL << (place % 64);
  pool_.remove_valid(place / shape_.block_units());
}

// ---- writing

void PageFtl::write(Nanoseconds now, const std::uint64_t* units, std::uint32_t count, std::uint64_t token) {
  touched_ = true;
  if (!cache_.covers_all()) {
    for (std::uint32_t i = 0; i < count; ++i) {
      look_up(now, units[i], 1, true, counters_.map_write_hits, counters_.map_write_misses);
      for (const std::uint32_t page : map_pages_) {
        const std::uint32_t die = page % shape_.dies;
        flash_.fetch(flash_.sense(now, die), die, unit_bytes_);
      }
    }
  }
  const std::uint32_t first_place = open_row(host_, next_die(host_));
  moving_.clear();
  for (std::uint32_t i = 0; i < count; ++i) moving_.push_back(static_cast<std::uint32_t>(units[i]));
  place_units(moving_.data(), count, first_place);
  counters_.units_host += count;
  if (free_writings_.empty()) {
    free_writings_.push_back(static_cast<std::uint32_t>(writings_.size()));
    writings_.emplace_back();
  }
  const std::uint32_t number = free_writings_.back();
  free_writings_.pop_back();
  writings_[number] = {token, count};
  const std::uint32_t die = shape_.die_of(first_place / shape_.block_units());
  const Nanoseconds done = flash_.program(now, die, static_cast<std::uint64_t>(shape_.row_units) * unit_bytes_);
  events_.schedule(done, *this, static_cast<std::uint64_t>(number) << kWhatBits | kProgrammed);
  if (pool_.free_blocks() < start_collecting_) collect(now, shape_.row_units);
}

// The die whose turn it is.
std::uint32_t PageFtl::next_die(const Frontier& frontier) const {
  return die_in_turn(shape_, frontier.programs / shape_.dies,
                     static_cast<std::uint32_t>(frontier.programs % shape_.dies));
}

// Returns the first place of the row that the frontier programs next on the die.
std::uint32_t PageFtl::open_row(Frontier& frontier, std::uint32_t die) {
  ++frontier.programs;
  std::uint32_t& block = frontier.block[die];
  if (block == BlockPool::kNoBlock) {
    block = pool_.take(die);
    assert(block != BlockPool::kNoBlock && "collection keeps blocks free");
    frontier.row[die] = 0;
  }
  const std::uint32_t first_place = block * shape_.block_units() + frontier.row[die] * shape_.row_units;
  if (++frontier.row[die] == shape_.rows) frontier.block[die] = BlockPool::kNoBlock;
  return first_place;
}

// Maps the units to the places from `first_place` on; what is left of the row is padding.
void PageFtl::place_units(const std::uint32_t* units, std::uint32_t count, std::uint32_t first_place) {
  const std::uint32_t block = first_place / shape_.block_units();
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t place = first_place + i;
    unmap(units[i]);  // one by one: the host may write a unit twice at once
    map_[units[i]] = place + kFirstPlace;
    owner_[place] = units[i] + 1;
    pool_.add_valid(block);
  }
  for (std::uint32_t place = first_place + count; place < first_place + shape_.row_units; ++place) {
    dead_[place / 64] |= 1ULL << (place % 64);
  }
  counters_.units_programmed += shape_.row_units;
  counters_.units_padding += shape_.row_units - count;
  if (first_place % shape_.block_units() == shape_.block_units() - shape_.row_units) pool_.close(block);
}

void PageFtl::discard(Nanoseconds now, std::uint64_t unit, std::uint64_t count) {
  touched_ = true;
  if (!cache_.covers_all()) {
    look_up(now, unit, count, true, counters_.map_discard_hits, counters_.map_discard_misses);
    for (const std::uint32_t page : map_pages_) {
      const std::uint32_t die = page % shape_.dies;
      flash_.fetch(flash_.sense(now, die), die, unit_bytes_);
    }
  }
  for (std::uint64_t each = unit; each < unit + count; ++each) {
    unmap(static_cast<std::uint32_t>(each));
    map_[each] = kUnmapped;
  }
  counters_.units_discarded += count;
}

// ---- collecting

// Frees as many units as the host has just taken: a write pays for what it takes and waits for no more than that. By
// whole blocks, one pays for those that follow it.
void PageFtl::collect(Nanoseconds now, std::uint32_t units) {
  ++counters_.gc_runs_foreground;
  owed_ += static_cast<std::int64_t>(units) * kOwedParts;
  // whatever is owed, the frontiers must find blocks to open
  while (owed_ > 0 || pool_.free_blocks() <= 2 * shape_.dies) {
    do {
      if (!collect_row(now)) {
        owed_ = 0;
        return;
      }
    } while (collect_whole_blocks_ && victim_ != BlockPool::kNoBlock);
  }
}

// Moves up to a row of valid units out of the victim, and erases it when it has none left. False when there is no block
// with garbage in it.
bool PageFtl::collect_row(Nanoseconds now) {
  if (victim_ == BlockPool::kNoBlock) {
    if (pool_.fewest_valid() >= shape_.block_units()) return false;
    victim_ = pool_.take_victim();
    victim_place_ = victim_ * shape_.block_units();
    victim_valid_ = pool_.valid(victim_);
  }
  const std::uint32_t end = (victim_ + 1) * shape_.block_units();
  const std::uint32_t die = shape_.die_of(victim_);
  Nanoseconds read = now;
  std::uint32_t sensed_row = kNoUnit;
  moving_.clear();
  for (; victim_place_ < end && moving_.size() < shape_.row_units && pool_.valid(victim_) > moving_.size();
       ++victim_place_) {
    if (!is_valid(victim_place_)) continue;
    moving_.push_back(owner_of(victim_place_));
    if (victim_place_ / shape_.row_units != sensed_row) {
      sensed_row = victim_place_ / shape_.row_units;
      read = flash_.sense(now, die);
    }
  }
  const auto moved = static_cast<std::uint32_t>(moving_.size());
  if (moved > 0) {
    flash_.fetch(now, die, static_cast<std::uint64_t>(moved) * unit_bytes_);
    const std::uint32_t first_place = open_row(moved_, collect_whole_blocks_ ? die : next_die(moved_));
    place_units(moving_.data(), moved, first_place);
    counters_.units_moved += moved;
    const std::uint32_t target = shape_.die_of(first_place / shape_.block_units());
    gc_until_ = flash_.program(now, target, static_cast<std::uint64_t>(shape_.row_units) * unit_bytes_);
    counters_.gc_ns += gc_until_ - now;
    // a block with v of n units valid gives n - v free ones for v moved
    owed_ -= kOwedParts * moved * (shape_.block_units() - victim_valid_) / victim_valid_;
  }
  if (pool_.valid(victim_) == 0) erase_victim(std::max(now, read));
  return true;
}

void PageFtl::erase_victim(Nanoseconds now) {
  const Nanoseconds done = flash_.erase(now, shape_.die_of(victim_));
  gc_until_ = std::max(gc_until_, done);
  const std::size_t first = static_cast<std::size_t>(victim_) * shape_.block_units();
  for (std::size_t place = first; place < first + shape_.block_units();) {
    if (place % 64 == 0 && place + 64 <= first + shape_.block_units()) {
      dead_[place / 64] = 0;
      place += 64;
    } else {
      dead_[place / 64] &= ~(1ULL << (place % 64));
      ++place;
    }
  }
  if (victim_valid_ == 0) owed_ -= kOwedParts * shape_.block_units();
  pool_.erased(victim_);
  victim_ = BlockPool::kNoBlock;
}

void PageFtl::idle(Nanoseconds now, Nanoseconds) {
  touched_ = false;  // a step that is still due goes on
  if (background_ || pool_.free_blocks() >= stop_collecting_) return;
  ++counters_.gc_runs_background;
  background_ = true;
  events_.schedule(now, *this, kBackground);
}

void PageFtl::record(Nanoseconds now, Recorder& recorder) const {
  for (std::uint32_t block = 0; block < shape_.blocks; ++block) {
    recorder.record(now, Series::kEraseCount, block, pool_.erase_count(block));
    if (!pool_.is_free(block)) {
      recorder.record(now, Series::kValidRatio, block, static_cast<double>(pool_.valid(block)) / shape_.block_units());
    }
  }
}

}  // namespace twin
