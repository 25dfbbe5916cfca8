// Hybrid mapping: reading, choosing log blocks, and merging them.
#include "ftl/log_block_ftl.h"

#include <algorithm>
#include <cassert>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/random.h"

namespace twin {
namespace {

// Kinds of events. An event consists of its kind and the slot of the write.
enum : std::uint64_t { kProgrammed, kBackground };
constexpr unsigned kWhatBits = 1;

constexpr std::uint32_t kStreamLog = 0;

// Returns the first number of splitmix64 for a seed.
std::uint64_t splitmix(std::uint64_t seed) { return mix(seed + kGoldenRatio); }

LogBlockFtl::Shape shape_of(std::int64_t capacity_bytes, const FlashParameters& flash, const FtlParameters& ftl,
                            const LogMappingParameters& log) {
  if (capacity_bytes % flash.page != 0) {
    throw std::invalid_argument("capacity.size: must be a multiple of flash.page");
  }
  // a merge reserves its flash operations at once; a suspension would move them afterwards
  if (flash.suspend_time > 0) {
    throw std::invalid_argument("flash.suspend_time: must be 0 if ftl.mapping is log_block");
  }
  const std::int64_t dies = flash.channels * flash.dies_per_channel;
  if (dies % log.group != 0) {
    throw std::invalid_argument("log_mapping.group: must divide the number of dies, " + std::to_string(dies));
  }
  if (log.blocks_per_log > 1 && log.log_blocks < 2) {
    throw std::invalid_argument(
        "log_mapping.log_blocks: must be at least 2 if blocks_per_log is greater than 1, because one log block is "
        "reserved for sequential streams");
  }
  const std::int64_t shared = log.log_blocks - (log.blocks_per_log > 1 ? 1 : 0);
  if (log.spare_logs >= shared) {
    throw std::invalid_argument("log_mapping.spare_logs: must be less than the number of log blocks for overwrites, " +
                                std::to_string(shared));
  }
  LogBlockFtl::Shape shape;
  shape.dies = static_cast<std::uint32_t>(dies);
  shape.group = static_cast<std::uint32_t>(log.group);
  shape.row_units = static_cast<std::uint32_t>(flash.planes);
  shape.block_units = static_cast<std::uint32_t>(flash.pages_per_block * flash.planes * log.group);
  const auto whole_units = static_cast<std::uint64_t>(capacity_bytes / flash.page);
  const auto units = static_cast<double>(whole_units);
  const double raw_units = units * (1 + ftl.over_provisioning);
  if (raw_units > 4e9) throw std::invalid_argument("capacity.size: too large for flash.page: the map holds 4e9 pages");
  shape.data_blocks = static_cast<std::uint32_t>((whole_units + shape.block_units - 1) / shape.block_units);
  // each die has the same number of blocks
  const std::uint32_t sets = shape.dies / shape.group;
  shape.blocks = (static_cast<std::uint32_t>(raw_units / shape.block_units) + sets - 1) / sets * sets;
  // a full merge needs a free block before it frees one
  const std::int64_t needed = shape.data_blocks + log.log_blocks + 1;
  if (shape.blocks < needed) {
    throw std::invalid_argument("ftl.over_provisioning: leaves " + std::to_string(shape.blocks) +
                                " mapping blocks, but " + std::to_string(needed) +
                                " are needed for the capacity, log_mapping.log_blocks and a block to merge into");
  }
  return shape;
}

}  // namespace

LogBlockFtl::LogBlockFtl(std::int64_t capacity_bytes, const FlashParameters& flash, const AgeingParameters& ageing,
                         std::uint64_t seed, const FtlParameters& ftl, const LogMappingParameters& mapping,
                         EventQueue& events, FtlClient& client, Counters& counters)
    : events_(events),
      client_(client),
      counters_(counters),
      unit_bytes_(static_cast<std::uint64_t>(flash.page)),
      units_(static_cast<std::uint32_t>(capacity_bytes / flash.page)),
      blocks_per_log_(static_cast<std::uint32_t>(mapping.blocks_per_log)),
      spare_logs_(static_cast<std::uint32_t>(mapping.spare_logs)),
      shape_(shape_of(capacity_bytes, flash, ftl, mapping)),
      flash_(flash, ageing, seed, counters),
      reader_(events, flash_, client),
      blocks_(shape_.blocks),
      data_(shape_.data_blocks),
      logs_(static_cast<std::size_t>(mapping.log_blocks)),
      in_log_(units_),
      log_p2l_(logs_.size() * shape_.block_units),
      invalid_(units_ / 64 + 1) {
  properties_ = {unit_bytes_, 1, shape_.row_units, shape_.dies, mapping.background_merge_idle};
  fill_initially(ftl.initial_state, ftl.initial_units(units_, flash.page));
}

// Fills the data blocks of the first `units`.
void LogBlockFtl::fill_initially(InitialState state, std::uint32_t units) {
  std::uint32_t used = 0;
  if (state != InitialState::kFresh) {
    for (; used * shape_.block_units < units; ++used) {
      assign(used, Use::kData, used);
      blocks_[used].filled = blocks_[used].valid = std::min(units_of(used), units - used * shape_.block_units);
      data_[used].block = used;
    }
  }
  const std::uint32_t data_blocks = used;
  for (; used < shape_.blocks; ++used) free_.push_back(used);
  if (state == InitialState::kRandom) fill_logs(data_blocks);
}

// Fills the log blocks with pages as random overwrites of the first data blocks leave them.
void LogBlockFtl::fill_logs(std::uint32_t data_blocks) {
  const auto logs = std::min(static_cast<std::uint32_t>(logs_.size()) - spare_logs_, first_shared() + data_blocks);
  for (std::uint32_t number = first_shared(); number < logs; ++number) {
    std::uint32_t block = kNone;
    for (std::uint32_t page = 0; page < shape_.block_units; ++page) {
      const std::uint64_t noise = splitmix(static_cast<std::uint64_t>(number) << 32 | page);
      // logs that are not shared serve one data block each, evenly spread over the drive
      const std::uint64_t chosen = blocks_per_log_ == 1
                                       ? static_cast<std::uint64_t>(number) * data_blocks / logs
                                       : splitmix(number + noise % blocks_per_log_ * logs_.size()) % data_blocks;
      const auto data_block = static_cast<std::uint32_t>(chosen);
      const auto offset = static_cast<std::uint32_t>((noise >> 20) % blocks_[data_[data_block].block].filled);
      if (block == kNone) block = open_log(number, data_block, 0);
      map_to_next_page(data_block * shape_.block_units + offset, block);
      data_[data_block].log = number;
    }
    logs_[number].sharers = blocks_per_log_;
    logs_[number].in_order = false;
  }
}

std::uint32_t LogBlockFtl::units_of(std::uint32_t data_block) const {
  return std::min(shape_.block_units, units_ - data_block * shape_.block_units);
}

std::uint32_t LogBlockFtl::physical_page_of(std::uint32_t unit) const {
  if (in_log_[unit] != 0) return in_log_[unit] - 1;
  const std::uint32_t block = data_[unit / shape_.block_units].block;
  const std::uint32_t offset = unit % shape_.block_units;
  if (block == kNone || offset >= blocks_[block].filled || is_invalid(unit)) return kNoUnit;
  return block * shape_.block_units + offset;
}

std::uint32_t LogBlockFtl::unit_at(std::uint32_t page) const {
  const Block& block = blocks_[page / shape_.block_units];
  const std::uint32_t within = page % shape_.block_units;
  if (within >= block.filled) return kNoUnit;
  const std::uint32_t unit = block.use == Use::kData
                                 ? block.serves * shape_.block_units + within
                                 : log_p2l_[static_cast<std::size_t>(block.serves) * shape_.block_units + within];
  return physical_page_of(unit) == page ? unit : kNoUnit;
}

void LogBlockFtl::set_invalid(std::uint32_t unit, bool invalid) {
  const std::uint64_t bit = 1ULL << (unit % 64);
  if (invalid) {
    invalid_[unit / 64] |= bit;
  } else if (is_invalid(unit)) {  // writing to a bit that is clear would allocate memory
    invalid_[unit / 64] &= ~bit;
  }
}

// Makes the newest copy of a unit invalid.
void LogBlockFtl::unmap(std::uint32_t unit) {
  const std::uint32_t page = physical_page_of(unit);
  if (page == kNoUnit) return;
  --blocks_[page / shape_.block_units].valid;
  if (in_log_[unit] != 0) {
    in_log_[unit] = 0;
  } else {
    set_invalid(unit, true);
  }
}

// ---- reading

bool LogBlockFtl::read(Nanoseconds now, std::uint64_t unit, std::uint32_t count, std::uint64_t size_bytes,
                       std::uint64_t token) {
  touched_ = true;
  const std::uint32_t operation = reader_.begin(token);
  reader_.read_units(*this, now, operation, static_cast<std::uint32_t>(unit), count, size_bytes);
  return reader_.end_of_call(operation);
}

void LogBlockFtl::on_event(Nanoseconds now, std::uint64_t what) {
  const auto number = static_cast<std::uint32_t>(what >> kWhatBits);
  switch (what & ((1U << kWhatBits) - 1)) {
    case kProgrammed:
      writes_.release(number);
      return client_.write_done(now, writes_[number]);
    case kBackground: {
      background_ = false;
      const std::uint32_t log = touched_ ? kNone : oldest_log(false);
      if (log == kNone) return;
      background_ = true;
      events_.schedule(std::max(merge(now, log), now + 1), *this, kBackground);
      return;
    }
    default:
      assert(false);  // no other kind of event is scheduled
  }
}

// ---- writing

void LogBlockFtl::write(Nanoseconds now, std::span<const std::uint64_t> units, std::uint64_t token) {
  touched_ = true;
  written_until_ = now;
  for (const std::uint64_t unit : units) append(now, static_cast<std::uint32_t>(unit));
  program_run();
  merge_ahead(now);
  counters_.units_host += units.size();
  counters_.units_programmed += units.size();
  events_.schedule(written_until_, *this, static_cast<std::uint64_t>(writes_.take(token)) << kWhatBits | kProgrammed);
}

void LogBlockFtl::append(Nanoseconds now, std::uint32_t unit) {
  Nanoseconds ready = now;
  const std::uint32_t block = block_for(now, unit, ready);
  const std::uint32_t page = block * shape_.block_units + blocks_[block].filled;
  const bool joins = run_.count > 0 && page == run_.page + run_.count && page % shape_.row_units != 0;
  if (!joins) {
    program_run();
    run_ = {page, 0, ready};
  }
  ++run_.count;
  map_to_next_page(unit, block);
  if (blocks_[block].use != Use::kLog) return;
  const std::uint32_t number = blocks_[block].serves;
  // a complete log block is merged at once, because waiting gains nothing
  if (is_prefix(logs_[number]) && blocks_[block].filled == units_of(logs_[number].first)) merge(now, number);
}

// Maps a unit to the next page of a block.
void LogBlockFtl::map_to_next_page(std::uint32_t unit, std::uint32_t number) {
  unmap(unit);
  Block& block = blocks_[number];
  const std::uint32_t within = block.filled++;
  ++block.valid;
  if (block.use == Use::kData) {
    set_invalid(unit, false);
    return;
  }
  Log& log = logs_[block.serves];
  log.written = ++turn_;
  log.in_order &= unit % shape_.block_units == within;
  in_log_[unit] = number * shape_.block_units + within + 1;
  log_p2l_[static_cast<std::size_t>(block.serves) * shape_.block_units + within] = unit;
}

void LogBlockFtl::program_run() {
  if (run_.count == 0) return;
  const Nanoseconds done = flash_.program(run_.ready, flash_page_of(run_.page), run_.count * unit_bytes_);
  Nanoseconds& programmed = blocks_[run_.page / shape_.block_units].programmed;
  programmed = std::max(programmed, done);
  written_until_ = std::max(written_until_, done);
  run_.count = 0;
}

// Returns the block for the next write of a unit, and sets `ready` to when the block is ready for it. Merges log blocks
// if there is no other way.
std::uint32_t LogBlockFtl::block_for(Nanoseconds now, std::uint32_t unit, Nanoseconds& ready) {
  const std::uint32_t data_block = unit / shape_.block_units;
  const std::uint32_t offset = unit % shape_.block_units;
  DataBlock& data = data_[data_block];
  if (data.block != kNone && blocks_[data.block].discarded) {
    erase(now, data.block);
    data.block = kNone;
  }
  const auto make_room = [&](std::uint32_t log) {
    ++counters_.gc_runs_foreground;
    ready = std::max(ready, merge(now, log));
  };
  const auto next_of = [&](std::uint32_t log) {
    ready = std::max(ready, logs_[log].ready);
    return logs_[log].block;
  };
  const auto has_room = [&](std::uint32_t log) {
    return log != kNone && blocks_[logs_[log].block].filled < shape_.block_units;
  };
  for (;;) {
    if (data.block == kNone && offset == 0) {
      data.block = take_free();
      assign(data.block, Use::kData, data_block);
    }
    if (data.block != kNone && blocks_[data.block].filled == offset) return data.block;
    if (blocks_per_log_ > 1) {
      const Log& stream = logs_[kStreamLog];
      if (stream.block != kNone && stream.first == data_block && blocks_[stream.block].filled == offset) {
        return next_of(kStreamLog);
      }
      if (offset == 0) {
        if (stream.block == kNone) return open_log(kStreamLog, data_block, ready);
        make_room(kStreamLog);
        continue;
      }
    }
    if (has_room(data.log)) return next_of(data.log);
    if (blocks_per_log_ == 1 && data.log != kNone) {
      make_room(data.log);
      continue;
    }
    if (has_room(sharing_) && logs_[sharing_].sharers < blocks_per_log_) {
      ++logs_[sharing_].sharers;
      data.log = sharing_;
      return next_of(sharing_);
    }
    if (const std::uint32_t unused = unused_log(); unused != kNone) {
      data.log = unused;
      if (blocks_per_log_ > 1) sharing_ = unused;
      ready = std::max(ready, logs_[unused].ready);
      return open_log(unused, data_block, ready);
    }
    make_room(oldest_log(true));
  }
}

// Returns the log that is free, or will be free first; kNone if all logs are in use.
std::uint32_t LogBlockFtl::unused_log() const {
  std::uint32_t first = kNone;
  for (std::uint32_t number = first_shared(); number < logs_.size(); ++number) {
    const Log& log = logs_[number];
    if (log.block == kNone && (first == kNone || log.ready < logs_[first].ready)) first = number;
  }
  return first;
}

std::uint32_t LogBlockFtl::open_log(std::uint32_t number, std::uint32_t data_block, Nanoseconds ready) {
  const std::uint32_t block = take_free();
  assign(block, Use::kLog, number);
  logs_[number] = {block, data_block, 1, true, ++turn_, turn_, ready};
  return block;
}

std::uint32_t LogBlockFtl::take_free() {
  assert(!free_.empty() && "data blocks and logs never take the last block");
  const std::uint32_t block = free_.front();
  free_.pop_front();
  return block;
}

Nanoseconds LogBlockFtl::erase(Nanoseconds now, std::uint32_t number) {
  Block& block = blocks_[number];
  assert(block.valid == 0 && "only garbage is erased");
  const std::uint32_t first_die = shape_.die_of(number * shape_.block_units);
  Nanoseconds done = now;
  for (std::uint32_t i = 0; i < shape_.group; ++i) done = std::max(done, flash_.erase(now, first_die + i));
  block = {0, 0, 0, block.erases + 1, 0, Use::kFree, false};
  free_.push_back(number);
  return done;
}

void LogBlockFtl::discard(Nanoseconds, std::uint64_t unit, std::uint64_t count) {
  touched_ = true;
  for (std::uint64_t each = unit; each < unit + count; ++each) {
    unmap(static_cast<std::uint32_t>(each));
    const std::uint32_t block = data_[each / shape_.block_units].block;
    // erased only when the data block is written again, so that discarding a whole drive does not occupy its dies
    if (block != kNone && blocks_[block].valid == 0) blocks_[block].discarded = true;
  }
  counters_.units_discarded += count;
}

// ---- merging

// Returns whether a log contains the beginning of one data block in order, and none of its pages was overwritten.
bool LogBlockFtl::is_prefix(const Log& log) const {
  return log.in_order && log.sharers == 1 && blocks_[log.block].valid == blocks_[log.block].filled;
}

// Returns the log to merge next; kNone if there is none. A log that can still become complete is left out unless
// `include_growing` is true.
std::uint32_t LogBlockFtl::oldest_log(bool include_growing) const {
  std::uint32_t oldest = kNone;
  std::uint64_t oldest_turn = 0;
  for (std::uint32_t number = include_growing ? first_shared() : 0; number < logs_.size(); ++number) {
    const Log& log = logs_[number];
    if (log.block == kNone || (!include_growing && is_prefix(log))) continue;
    const std::uint64_t turn = blocks_per_log_ == 1 ? log.written : log.opened;
    if (oldest != kNone && turn >= oldest_turn) continue;
    oldest = number;
    oldest_turn = turn;
  }
  return oldest;
}

// Merges logs until spare_logs_ logs are free. The map can use a free log at once; writes to it wait until the flash
// operations of the merge are complete.
void LogBlockFtl::merge_ahead(Nanoseconds now) {
  if (spare_logs_ == 0) return;
  const auto spare = [](const Log& log) { return log.block == kNone; };
  while (std::count_if(logs_.begin() + first_shared(), logs_.end(), spare) < spare_logs_) {
    const std::uint32_t log = oldest_log(true);
    ++counters_.gc_runs_background;
    logs_[log].ready = merge(now, log);
  }
}

// Merges a log and frees it. Returns when the merge is complete.
Nanoseconds LogBlockFtl::merge(Nanoseconds now, std::uint32_t number) {
  program_run();  // its pages are programmed before the pages of the merge
  Nanoseconds done = now;
  if (is_prefix(logs_[number])) {
    done = take_over(now, number);
  } else {
    const std::uint32_t block = logs_[number].block;
    for (std::uint32_t within = 0; within < blocks_[block].filled; ++within) {
      const std::uint32_t unit = unit_at(block * shape_.block_units + within);
      if (unit == kNoUnit) continue;
      const std::uint32_t data_block = unit / shape_.block_units;
      done = std::max(done, full_merge(now, data_block));
      // the full merge has also copied the pages in the stream's log
      const Log& stream = logs_[kStreamLog];
      if (blocks_per_log_ > 1 && number != kStreamLog && stream.block != kNone && stream.first == data_block) {
        const std::uint32_t stream_block = stream.block;
        close_log(kStreamLog);
        done = std::max(done, erase(done, stream_block));
      }
    }
    close_log(number);
    done = erase(done, block);
  }
  counters_.gc_ns += done - now;
  return done;
}

// Does a switch merge or a partial merge: the log block becomes the data block. Returns when it is complete.
Nanoseconds LogBlockFtl::take_over(Nanoseconds now, std::uint32_t number) {
  const std::uint32_t data_block = logs_[number].first;
  const std::uint32_t block = logs_[number].block;
  const std::uint32_t filled = blocks_[block].filled;
  ++(filled == units_of(data_block) ? counters_.switch_merges : counters_.partial_merges);
  const Nanoseconds done = std::max(copy(now, data_block, filled, block), blocks_[block].programmed);
  for (std::uint32_t unit = data_block * shape_.block_units; unit < data_block * shape_.block_units + filled; ++unit) {
    in_log_[unit] = 0;
    set_invalid(unit, false);
  }
  close_log(number);
  return replace_data_block(done, data_block, block);
}

// Does a full merge of one data block. Returns when it is complete.
Nanoseconds LogBlockFtl::full_merge(Nanoseconds now, std::uint32_t data_block) {
  ++counters_.full_merges;
  const std::uint32_t target = take_free();
  return replace_data_block(copy(now, data_block, 0, target), data_block, target);
}

// Makes a block the data block, and erases the old one. Returns when the old one is erased.
Nanoseconds LogBlockFtl::replace_data_block(Nanoseconds now, std::uint32_t data_block, std::uint32_t block) {
  assign(block, Use::kData, data_block);
  const std::uint32_t old = std::exchange(data_[data_block].block, block);
  return old == kNone ? now : erase(now, old);
}

// Copies the newest pages of a data block, from offset `from` on, to the same offsets in `target`. Returns when they
// are programmed.
Nanoseconds LogBlockFtl::copy(Nanoseconds now, std::uint32_t data_block, std::uint32_t from, std::uint32_t target) {
  const std::uint32_t first_unit = data_block * shape_.block_units;
  std::uint32_t end = units_of(data_block);
  while (end > from && physical_page_of(first_unit + end - 1) == kNoUnit) --end;
  Nanoseconds done = now;
  for (std::uint32_t offset = from; offset < end;) {
    const std::uint32_t begin = offset;
    Nanoseconds arrived = now;
    std::uint32_t source = kNoUnit;  // row in the register of its die
    do {
      const std::uint32_t unit = first_unit + offset;
      const std::uint32_t page = physical_page_of(unit);
      if (page == kNoUnit) {
        ++counters_.units_padding;
        set_invalid(unit, true);
      } else {
        const std::uint32_t die = shape_.die_of(page);
        Nanoseconds in_register = now;
        if (page / shape_.row_units != source) {
          source = page / shape_.row_units;
          in_register = flash_.array_read(now, flash_page_of(page), ReadFor::kDrive);
        }
        arrived = std::max(arrived, flash_.transfer(in_register, die, unit_bytes_));
        ++counters_.units_moved;
        unmap(unit);
        set_invalid(unit, false);
        ++blocks_[target].valid;
      }
      ++counters_.units_programmed;
      ++offset;
    } while (offset < end && offset % shape_.row_units != 0);
    const FlashPage page = flash_page_of(target * shape_.block_units + begin);
    done = std::max(done, flash_.program(arrived, page, (offset - begin) * unit_bytes_));
  }
  blocks_[target].filled = std::max(end, from);
  blocks_[target].programmed = std::max(blocks_[target].programmed, done);
  return done;
}

void LogBlockFtl::close_log(std::uint32_t number) {
  const std::uint32_t block = logs_[number].block;
  for (std::uint32_t within = 0; within < blocks_[block].filled; ++within) {
    const std::uint32_t unit = log_p2l_[static_cast<std::size_t>(number) * shape_.block_units + within];
    DataBlock& data = data_[unit / shape_.block_units];
    if (data.log == number) data.log = kNone;
  }
  logs_[number].block = kNone;
  if (sharing_ == number) sharing_ = kNone;
}

void LogBlockFtl::idle(Nanoseconds now) {
  touched_ = false;
  if (background_ || oldest_log(false) == kNone) return;
  ++counters_.gc_runs_background;
  background_ = true;
  events_.schedule(now, *this, kBackground);
}

void LogBlockFtl::record(Nanoseconds now, Recorder& recorder) const {
  for (std::uint32_t number = 0; number < shape_.blocks; ++number) {
    const Block& block = blocks_[number];
    recorder.record(now, Series::kEraseCount, number, block.erases);
    if (block.use != Use::kFree) {
      recorder.record(now, Series::kValidRatio, number, static_cast<double>(block.valid) / shape_.block_units);
    }
  }
}

}  // namespace twin
