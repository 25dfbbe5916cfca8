// Page mapping: lookups, programs and garbage collection.
#include "ftl/page_ftl.h"

#include <algorithm>
#include <cassert>
#include <stdexcept>
#include <string>

namespace twin {
namespace {

// Kinds of events. An event consists of its kind and the slot of the map read or program.
enum : std::uint64_t { kMapRead, kProgrammed, kBackground };
constexpr unsigned kWhatBits = 2;

// The debt of foreground garbage collection is counted in 1/1024 units.
constexpr std::int64_t kDebtParts = 1024;

// Entries of the logical-to-physical map. A LazyArray starts with zeros, so 0 stands for the initial page.
constexpr std::uint32_t kInitial = 0;
constexpr std::uint32_t kUnmapped = 1;
constexpr std::uint32_t kFirstPage = 2;  // plus the physical page

// Returns the number of map entries that fit into memory; 0 if all do.
std::uint32_t cached_entries(double coverage, std::uint32_t units) {
  return coverage < 1 ? std::max(1U, static_cast<std::uint32_t>(coverage * units)) : 0;
}

BlockShape shape_of(std::int64_t capacity_bytes, const FlashParameters& flash, const FtlParameters& ftl,
                    const PageMappingParameters& mapping) {
  const std::int64_t unit = mapping.unit;
  if (flash.page % unit != 0) throw std::invalid_argument("flash.page: must be a multiple of page_mapping.unit");
  if (capacity_bytes % unit != 0) {
    throw std::invalid_argument("capacity.size: must be a multiple of page_mapping.unit");
  }
  BlockShape shape;
  shape.dies = static_cast<std::uint32_t>(flash.channels * flash.dies_per_channel);
  shape.rows = static_cast<std::uint32_t>(flash.pages_per_block);
  shape.row_units = static_cast<std::uint32_t>(flash.planes * (flash.page / unit));
  const double units = static_cast<double>(capacity_bytes) / static_cast<double>(unit);
  const double blocks = units * (1 + ftl.over_provisioning) / shape.block_units();
  if (blocks * shape.block_units() > 4e9)
    throw std::invalid_argument("capacity.size: too large for page_mapping.unit: the map holds 4e9 units");
  // each die has the same number of blocks
  shape.blocks = (static_cast<std::uint32_t>(blocks) + shape.dies - 1) / shape.dies * shape.dies;
  const auto reserve = static_cast<std::uint32_t>(mapping.gc_reserve);
  const std::uint32_t needed = static_cast<std::uint32_t>(units / shape.block_units()) + (reserve + 1) * shape.dies;
  if (shape.blocks < needed) {
    throw std::invalid_argument("ftl.over_provisioning: leaves " + std::to_string(shape.blocks) +
                                " blocks, but at least " + std::to_string(needed) +
                                " are needed for the capacity and " + std::to_string(reserve) +
                                " erased blocks for each die (page_mapping.gc_reserve)");
  }
  return shape;
}

// Returns the number of units in `blocks_per_die` blocks of each die.
std::uint64_t reserve_units(std::int64_t blocks_per_die, const BlockShape& shape) {
  return static_cast<std::uint64_t>(blocks_per_die) * shape.dies * shape.block_units();
}

}  // namespace

PageFtl::PageFtl(std::int64_t capacity_bytes, const FlashParameters& flash, const AgeingParameters& ageing,
                 std::uint64_t seed, const FtlParameters& ftl, const PageMappingParameters& mapping, EventQueue& events,
                 FtlClient& client, Counters& counters)
    : events_(events),
      client_(client),
      counters_(counters),
      unit_bytes_(static_cast<std::uint64_t>(mapping.unit)),
      units_(static_cast<std::uint32_t>(capacity_bytes / mapping.unit)),
      shape_(shape_of(capacity_bytes, flash, ftl, mapping)),
      row_bytes_(shape_.row_units * unit_bytes_),
      start_collecting_(reserve_units(mapping.gc_reserve, shape_)),
      stop_collecting_(reserve_units(mapping.background_gc_reserve, shape_)),
      collect_whole_blocks_(mapping.gc_whole_blocks),
      initial_(ftl.initial_state, shape_, ftl.initial_units(units_, mapping.unit),
               static_cast<std::uint32_t>(mapping.gc_reserve) * shape_.dies),
      pool_(shape_, initial_, mapping.gc_policy, static_cast<std::uint32_t>(mapping.wear_spread), counters),
      flash_(flash, ageing, seed, counters),
      reader_(events, flash_, client),
      cache_(cached_entries(mapping.map_cache_coverage, units_), units_,
             static_cast<std::uint32_t>(mapping.map_page_entries), mapping.map_batch_fetch),
      l2p_(units_),
      p2l_(static_cast<std::size_t>(shape_.blocks) * shape_.block_units()),
      invalid_(static_cast<std::size_t>(shape_.blocks) * shape_.block_units() / 64 + 1),
      host_frontier_(shape_.dies),
      gc_frontier_(shape_.dies) {
  if (mapping.background_gc_reserve < mapping.gc_reserve) {
    throw std::invalid_argument("page_mapping.background_gc_reserve: must not be less than gc_reserve");
  }
  properties_ = {unit_bytes_, shape_.row_units / static_cast<std::uint32_t>(flash.planes), shape_.row_units,
                 shape_.dies, mapping.background_gc_idle};
}

std::uint32_t PageFtl::physical_page_of(std::uint32_t unit) const {
  const std::uint32_t entry = l2p_[unit];
  if (entry >= kFirstPage) return entry - kFirstPage;
  return entry == kInitial ? initial_.physical_page_of(unit) : kNoUnit;
}

// ---- reading

bool PageFtl::read(Nanoseconds now, std::uint64_t unit, std::uint32_t count, std::uint64_t size_bytes,
                   std::uint64_t token) {
  touched_ = true;
  const std::uint32_t operation = reader_.begin(token);
  const auto first = static_cast<std::uint32_t>(unit);
  look_up(now, unit, count, false, counters_.map_read_hits, counters_.map_read_misses);
  if (!map_pages_.empty()) {
    // the data are read when all map entries are in memory
    const std::uint64_t slot = map_reads_.take({operation, first, count, size_bytes});
    events_.schedule(read_map_pages(now), *this, slot << kWhatBits | kMapRead);
    return true;
  }
  reader_.read_units(*this, now, operation, first, count, size_bytes);
  return reader_.end_of_call(operation);
}

void PageFtl::on_event(Nanoseconds now, std::uint64_t what) {
  const auto number = static_cast<std::uint32_t>(what >> kWhatBits);
  switch (what & ((1U << kWhatBits) - 1)) {
    case kMapRead: {
      const MapRead data = map_reads_[number];
      map_reads_.release(number);
      reader_.read_units(*this, now, data.operation, data.unit, data.count, data.size_bytes);
      return reader_.end(now, data.operation);
    }
    case kProgrammed: {
      Program& running = programs_[number];
      const Nanoseconds postponed = flash_.postponed_ns(running.die);
      if (postponed > running.postponed) {  // reads have suspended it
        events_.schedule(now + postponed - running.postponed, *this, what);
        running.postponed = postponed;
        return;
      }
      programs_.release(number);
      return client_.write_done(now, running.token);
    }
    case kBackground: {
      background_ = false;
      if (touched_ || erased_units() >= stop_collecting_) return;
      // Units reclaimed here delay foreground collection because they are erased units. They must not reduce its debt
      // as well, or no erased unit would be left when it starts.
      const std::int64_t debt = debt_;
      // collecting a block with less than a row of garbage gains nothing
      const bool collected = collect_row(now, shape_.row_units);
      debt_ = debt;
      if (!collected) return;
      background_ = true;
      events_.schedule(std::max(gc_until_, now + 1), *this, kBackground);
      return;
    }
    default:
      assert(false);  // no other kind of event is scheduled
  }
}

// ---- the map

// Looks up `count` map entries in the cache, and stores the pages of the map that have to be read in map_pages_. Does
// nothing, and counts nothing, if the complete map is in memory.
void PageFtl::look_up(Nanoseconds now, std::uint64_t unit, std::uint64_t count, bool change, std::uint64_t& hits,
                      std::uint64_t& misses) {
  if (cache_.covers_all()) return;
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
      const auto number = static_cast<std::uint32_t>(counters_.translation_writes);
      flash_.program(now, {number % shape_.dies, number / shape_.dies}, unit_bytes_);
    }
  }
  counters_.translation_reads += map_pages_.size();
  ++(map_pages_.empty() ? counters_.map_request_hits : counters_.map_request_misses);
}

// Reads the pages of the map in map_pages_. Returns when they are in memory.
Nanoseconds PageFtl::read_map_pages(Nanoseconds now) {
  Nanoseconds in_memory = now;
  for (const std::uint32_t page : map_pages_) {
    const FlashPage at{page % shape_.dies, page / shape_.dies};
    in_memory = std::max(in_memory, flash_.transfer(flash_.array_read(now, at, ReadFor::kHost), at.die, unit_bytes_));
  }
  return in_memory;
}

bool PageFtl::is_valid(std::uint32_t page) const {
  if ((invalid_[page / 64] >> (page % 64) & 1) != 0) return false;
  // pages of a block that has not been erased since the drive was created may have been invalid initially
  const std::uint32_t block = page / shape_.block_units();
  const bool initial = block < initial_.used_blocks() && pool_.erase_count(block) == 0;
  return !initial || initial_.unit_at(page) != kNoUnit;
}

std::uint32_t PageFtl::unit_at(std::uint32_t page) const {
  const std::uint32_t entry = p2l_[page];
  return entry == 0 ? initial_.unit_at(page) : entry - 1;
}

void PageFtl::unmap(std::uint32_t unit) {
  const std::uint32_t page = physical_page_of(unit);
  if (page == kNoUnit) return;
  invalid_[page / 64] |= 1ULL << (page % 64);
  pool_.remove_valid(page / shape_.block_units());
}

// ---- writing

void PageFtl::write(Nanoseconds now, std::span<const std::uint64_t> units, std::uint64_t token) {
  touched_ = true;
  for (const std::uint64_t unit : units) {
    look_up(now, unit, 1, true, counters_.map_write_hits, counters_.map_write_misses);
    read_map_pages(now);
  }
  moving_.assign(units.begin(), units.end());
  counters_.units_host += units.size();
  const FlashPage at = map_row(host_frontier_, next_die(host_frontier_));
  const std::uint32_t number = programs_.take({token, at.die, flash_.postponed_ns(at.die)});
  events_.schedule(flash_.program(now, at, row_bytes_), *this,
                   static_cast<std::uint64_t>(number) << kWhatBits | kProgrammed);
  collect(now);
}

// Returns the die of the next program.
std::uint32_t PageFtl::next_die(const Frontier& frontier) const {
  return die_in_turn(shape_, frontier.programs / shape_.dies,
                     static_cast<std::uint32_t>(frontier.programs % shape_.dies));
}

// Takes the next row of a frontier on a die, and returns its first page.
std::uint32_t PageFtl::open_row(Frontier& frontier, std::uint32_t die) {
  ++frontier.programs;
  std::uint32_t& block = frontier.block[die];
  if (block == BlockPool::kNoBlock) {
    block = pool_.take(die);
    assert(block != BlockPool::kNoBlock && "collection keeps blocks free");
    frontier.row[die] = 0;
    frontier.erased_rows += shape_.rows;
  }
  --frontier.erased_rows;
  const std::uint32_t first_page = block * shape_.block_units() + frontier.row[die] * shape_.row_units;
  if (++frontier.row[die] == shape_.rows) frontier.block[die] = BlockPool::kNoBlock;
  return first_page;
}

// Maps the units in moving_ to the next row of a frontier on a die, and returns the flash page of the row. The rest of
// the row is padding.
FlashPage PageFtl::map_row(Frontier& frontier, std::uint32_t die) {
  const std::uint32_t first_page = open_row(frontier, die);
  const std::uint32_t block = first_page / shape_.block_units();
  std::uint32_t page = first_page;
  for (const std::uint32_t unit : moving_) {
    unmap(unit);  // in this loop, because a write may contain a unit twice
    l2p_[unit] = page + kFirstPage;
    p2l_[page] = unit + 1;
    pool_.add_valid(block);
    ++page;
  }
  for (; page < first_page + shape_.row_units; ++page) invalid_[page / 64] |= 1ULL << (page % 64);
  counters_.units_programmed += shape_.row_units;
  counters_.units_padding += shape_.row_units - moving_.size();
  if (first_page % shape_.block_units() == shape_.block_units() - shape_.row_units) pool_.close(block);
  return flash_page_of(first_page);
}

void PageFtl::discard(Nanoseconds now, std::uint64_t unit, std::uint64_t count) {
  touched_ = true;
  look_up(now, unit, count, true, counters_.map_discard_hits, counters_.map_discard_misses);
  read_map_pages(now);
  for (std::uint64_t each = unit; each < unit + count; ++each) {
    unmap(static_cast<std::uint32_t>(each));
    l2p_[each] = kUnmapped;
  }
  counters_.units_discarded += count;
}

// ---- collecting

// Returns the number of units that can be programmed before a block has to be erased.
std::uint64_t PageFtl::erased_units() const {
  return static_cast<std::uint64_t>(pool_.free_blocks()) * shape_.block_units() +
         (host_frontier_.erased_rows + gc_frontier_.erased_rows) * shape_.row_units;
}

// Runs foreground garbage collection after each row that the host has programmed. Below the reserve it reclaims as many
// units as the row has consumed, and more the farther below. Thus erased space stays nearly constant, and no write
// waits much longer than others. If whole blocks are collected, one write waits for a block, and the writes after it do
// not.
void PageFtl::collect(Nanoseconds now) {
  const std::uint64_t erased = erased_units();
  if (erased >= start_collecting_) {
    debt_ = std::min<std::int64_t>(debt_, 0);
    return;
  }
  ++counters_.gc_runs_foreground;
  const std::uint64_t missing = start_collecting_ - erased;
  // Victims with hardly a valid unit free much more than a row needs. This credit must not use up the reserve.
  if (missing >= reserve_units(1, shape_)) debt_ = std::max<std::int64_t>(debt_, 0);
  const std::int64_t row_debt = kDebtParts * shape_.row_units;
  debt_ +=
      row_debt + static_cast<std::int64_t>(static_cast<std::uint64_t>(row_debt) * missing / reserve_units(1, shape_));
  while (debt_ > 0) {
    do {
      if (!collect_row(now, 1)) {
        debt_ = 0;
        return;
      }
    } while (collect_whole_blocks_ && victim_ != BlockPool::kNoBlock);
  }
}

// Moves a row of valid units out of the victim, and erases the victim when no valid unit is left. If the victim does
// not fill the row, units of the next victim are added, unless whole blocks are collected. Returns false if no block
// has `least_garbage` invalid units.
bool PageFtl::collect_row(Nanoseconds now, std::uint32_t least_garbage) {
  moving_.clear();
  emptied_.clear();
  std::uint32_t die = 0;
  while (moving_.size() < shape_.row_units) {
    if (victim_ == BlockPool::kNoBlock && !take_victim(least_garbage)) break;
    die = shape_.die_of(victim_);
    const std::size_t before = moving_.size();
    if (gather(now)) {
      emptied_.push_back(victim_);
      victim_ = BlockPool::kNoBlock;
    }
    const std::size_t gathered = moving_.size() - before;
    if (gathered > 0) flash_.transfer(now, die, gathered * unit_bytes_);
    if (victim_ == BlockPool::kNoBlock && (collect_whole_blocks_ || moving_.empty())) break;
  }
  if (moving_.empty() && emptied_.empty()) return false;
  if (!moving_.empty()) {
    const FlashPage target = map_row(gc_frontier_, collect_whole_blocks_ ? die : next_die(gc_frontier_));
    counters_.units_moved += moving_.size();
    gc_until_ = flash_.program(now, target, row_bytes_);
    counters_.gc_ns += gc_until_ - now;
  }
  for (const std::uint32_t block : emptied_) erase(now, block);
  return true;
}

bool PageFtl::take_victim(std::uint32_t least_garbage) {
  victim_ = pool_.take_victim(least_garbage);
  if (victim_ == BlockPool::kNoBlock) return false;
  victim_page_ = victim_ * shape_.block_units();
  victim_valid_ = pool_.valid(victim_);
  if (victim_valid_ == 0) debt_ -= kDebtParts * shape_.block_units();
  return true;
}

// Reads valid units of the victim until the row to move is full. Returns whether the victim has no more valid units.
bool PageFtl::gather(Nanoseconds now) {
  std::uint32_t left = pool_.valid(victim_);  // the host may have overwritten some since the last row
  std::uint32_t row_read = kNoUnit;
  for (; left > 0 && moving_.size() < shape_.row_units; ++victim_page_) {
    if (!is_valid(victim_page_)) continue;
    moving_.push_back(unit_at(victim_page_));
    --left;
    if (victim_page_ / shape_.row_units != row_read) {
      row_read = victim_page_ / shape_.row_units;
      flash_.array_read(now, flash_page_of(victim_page_), ReadFor::kDrive);
    }
    // A block with v of n units valid frees n - v units for v moved ones. A block collected for wear levelling may free
    // none; the minimum keeps such a block from being moved all at once.
    const std::uint32_t freed = std::max(shape_.block_units() - victim_valid_, shape_.block_units() / 16);
    debt_ -= kDebtParts * freed / victim_valid_;
  }
  return left == 0;
}

void PageFtl::erase(Nanoseconds now, std::uint32_t block) {
  gc_until_ = std::max(gc_until_, flash_.erase(now, shape_.die_of(block)));
  const std::uint32_t first_page = block * shape_.block_units();
  for (std::uint32_t page = first_page; page < first_page + shape_.block_units(); ++page) {
    invalid_[page / 64] &= ~(1ULL << (page % 64));
  }
  pool_.erased(block);
}

void PageFtl::idle(Nanoseconds now) {
  touched_ = false;  // allows a step that is already scheduled
  if (background_ || erased_units() >= stop_collecting_) return;
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
