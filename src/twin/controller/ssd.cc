// How the SSD's controller executes each command.
#include "controller/ssd.h"

#include <algorithm>
#include <cassert>

namespace twin {
namespace {

// Events: what happens, and the index of the command that it concerns.
enum : std::uint64_t { kDecoded, kAcknowledge, kDestage, kIdle };
constexpr unsigned kWhatBits = 2;

// The highest bits of a token, which the FTL hands back, say what the data are for.
enum : std::uint64_t {
  kDemand = 0ULL << 60,    // a read command: the piece of its data
  kPrefetch = 1ULL << 60,  // read-ahead: a token of ReadAhead below
  kFill = 2ULL << 60,      // the rest of a unit of which a write has a part: index of the write's command
  kThrough = 3ULL << 60,   // a write that waits for the flash: index of the command
  kBatch = 4ULL << 60,     // a batch of the write buffer: its number
  kWho = 15ULL << 60,
};

// A drive that is too hot stops taking commands for a part of each of these periods.
constexpr Nanoseconds kThrottlePeriod = 10 * kMillisecond;

// More units than this on their way from the flash are not shared between commands.
constexpr std::size_t kMostFetching = 1 << 16;

}  // namespace

Ssd::Ssd(const SsdParameters& parameters, std::uint64_t capacity_bytes, const MakeFtl& make_ftl, Link& link,
         EventQueue& events, Counters& counters)
    : controller_(parameters.controller),
      buffer_parameters_(parameters.write_buffer),
      max_outstanding_(parameters.read_ahead.max_outstanding),
      link_(link),
      events_(events),
      counters_(counters),
      ftl_(make_ftl(*this)),
      background_idle_(ftl_->background_idle()),
      unit_bytes_(ftl_->unit_bytes()),
      piece_units_(ftl_->page_units()),
      read_cache_(static_cast<std::uint64_t>(parameters.read_cache.size), unit_bytes_, parameters.read_cache.enabled),
      keeps_written_(parameters.read_cache.keeps_written),
      read_ahead_(parameters.read_ahead, unit_bytes_, capacity_bytes, counters),
      buffer_(parameters.write_buffer, unit_bytes_, ftl_->program_units(), ftl_->parallel_programs()),
      fetching_(kMostFetching),
      write_back_(parameters.write_buffer.size > 0 &&
                  (parameters.write_buffer.enabled || parameters.write_buffer.power_loss_protected)) {
  batch_.reserve(ftl_->program_units());
  flushes_.reserve(64);
  const auto initial_bytes = static_cast<std::uint64_t>(parameters.read_cache.initial);
  const std::uint64_t cached = read_cache_.enabled() ? std::min(initial_bytes, capacity_bytes) / unit_bytes_ : 0;
  for (std::uint64_t unit = 0; unit < cached; ++unit) read_cache_.insert(unit);
}

Ssd::~Ssd() = default;

void Ssd::start(Nanoseconds now, Command& command) {
  ++commands_;
  last_activity_ = now;
  if (command.index >= states_.size()) states_.resize(2 * command.index + 64);
  states_[command.index].command = &command;
  Nanoseconds begin = std::max(accepts_from_, now);
  if (controller_.throttle > 0) {
    const auto closed = static_cast<Nanoseconds>(controller_.throttle * kThrottlePeriod);
    const Nanoseconds since = begin % kThrottlePeriod;
    if (since < closed) begin += closed - since;
  }
  const bool read = command.request.operation == Operation::kRead;
  accepts_from_ = begin + (read ? controller_.read_interval : controller_.write_interval);
  events_.schedule(begin + (read ? controller_.read_command_time : controller_.write_command_time), *this,
                   command.index << kWhatBits | kDecoded);
}

void Ssd::on_event(Nanoseconds now, std::uint64_t what) {
  switch (what & ((1U << kWhatBits) - 1)) {
    case kDecoded: {
      Command& command = *states_[what >> kWhatBits].command;
      switch (command.request.operation) {
        case Operation::kRead:
          return begin_read(now, command);
        case Operation::kWrite:
          return begin_write(now, command);
        case Operation::kFlush:
          return begin_flush(now, command);
        case Operation::kDiscard:
          return begin_discard(now, command);
      }
      return;
    }
    case kAcknowledge:
      return respond(now, *states_[what >> kWhatBits].command);
    case kDestage:
      destage_timer_ = false;
      return destage(now, true);
    case kIdle: {
      idle_timer_ = false;
      if (commands_ > 0) return;  // the next response sets the timer again
      const Nanoseconds due = last_activity_ + background_idle_;
      if (now >= due) return ftl_->idle(now, last_activity_);
      idle_timer_ = true;
      events_.schedule(due, *this, kIdle);
      return;
    }
    default:
      assert(false);  // no other kind of event is scheduled
  }
}

// ---- reading

void Ssd::begin_read(Nanoseconds now, Command& command) {
  const Request& request = command.request;
  const std::uint64_t end_bytes = request.offset_bytes + request.size_bytes;
  State& state = states_[command.index];
  state.passing_until = now;
  command.pending = 1;  // counts this function itself, until it has started all parts
  state.stream = read_ahead_.observe(request);
  state.covered_bytes = std::min(read_ahead_.covered_bytes(state.stream, request.offset_bytes), request.size_bytes);
  if (state.covered_bytes > 0) {
    if (state.covered_bytes == request.size_bytes) ++counters_.prefetch_hits;
    ++command.pending;
    if (read_ahead_.ready_or_wait(state.stream, request.offset_bytes + state.covered_bytes, command)) {
      carry(now, command, state.covered_bytes);
      --command.pending;
    }
  }
  demand(now, command, request.offset_bytes + state.covered_bytes, end_bytes);
  // the reader's own data go first
  read_ahead(now, state.stream);
  part_done(now, command);
}

// Asks the FTL for those parts of [begin, end) that are not in memory, in pieces of a flash page. Each piece goes over
// the link as it arrives.
void Ssd::demand(Nanoseconds now, Command& command, std::uint64_t begin_bytes, std::uint64_t end_bytes) {
  if (begin_bytes >= end_bytes) return;
  constexpr std::uint32_t kInMemory = kNobody;
  constexpr std::uint32_t kInFlash = kNobody - 1;
  const auto where = [this](std::uint64_t unit) {
    if (buffer_.holds(unit) || read_cache_.hit(unit)) return kInMemory;
    const std::uint32_t* piece = fetching_.empty() ? nullptr : fetching_.find(unit);
    return piece == nullptr ? kInFlash : *piece;
  };
  const std::uint64_t end = end_unit(end_bytes);
  bool all_in_memory = true;
  std::uint64_t unit = first_unit(begin_bytes);
  while (unit < end) {
    const std::uint64_t piece_end = std::min(end, (unit / piece_units_ + 1) * piece_units_);
    // a run of units up to piece_end that are all in memory, all in the flash, or all on their way in one piece
    const std::uint32_t here = where(unit);
    std::uint64_t run_end = unit + 1;
    while (run_end < piece_end && where(run_end) == here) ++run_end;
    const std::uint64_t size_bytes =
        std::min(end_bytes, run_end * unit_bytes_) - std::max(begin_bytes, unit * unit_bytes_);
    if (here == kInMemory) {
      carry(now, command, size_bytes);
    } else {
      all_in_memory = false;
      if (here == kInFlash) {
        demand_piece(now, command, unit, run_end, size_bytes);
      } else {
        wait_for(here, command, size_bytes);
      }
    }
    unit = run_end;
  }
  if (all_in_memory) ++counters_.buffer_read_hits;
}

void Ssd::demand_piece(Nanoseconds now, Command& command, std::uint64_t first, std::uint64_t last,
                       std::uint64_t size_bytes) {
  const std::uint32_t piece = pieces_.take({&command, first, last});
  if (ftl_->read(now, first, static_cast<std::uint32_t>(last - first), size_bytes, kDemand | piece)) {
    ++command.pending;
    if (!read_cache_.enabled()) return;
    for (std::uint64_t unit = first; unit < last && !fetching_.full(); ++unit) fetching_.insert(unit, piece);
    return;
  }
  pieces_.release(piece);
  for (std::uint64_t unit = first; unit < last; ++unit) read_cache_.insert(unit);
  carry(now, command, size_bytes);
}

// Another command has asked the flash for these data: they go to both.
void Ssd::wait_for(std::uint32_t piece, Command& command, std::uint64_t size_bytes) {
  ++command.pending;
  const std::uint32_t number = waiting_.take({&command, size_bytes});
  Piece& coming = pieces_[piece];
  (coming.waiting == kNobody ? coming.waiting : waiting_[coming.waiting_last].next) = number;
  coming.waiting_last = number;
}

void Ssd::demand_done(Nanoseconds now, std::uint32_t number) {
  const Piece piece = pieces_[number];
  pieces_.release(number);
  for (std::uint64_t unit = piece.first; unit < piece.last && !fetching_.empty(); ++unit) {
    const std::uint32_t* bringing = fetching_.find(unit);
    if (bringing == nullptr || *bringing != number) continue;  // written in the meantime
    fetching_.erase(unit);
    read_cache_.insert(unit);
  }
  part_done(now, *piece.command);
  for (std::uint32_t each = piece.waiting; each != kNobody;) {
    const Waiting waiting = waiting_[each];
    waiting_.release(each);
    carry(now, *waiting.command, waiting.size_bytes);
    part_done(now, *waiting.command);
    each = waiting.next;
  }
}

// The host wrote or discarded the units from `first` to before `end`: what of them is in memory or on its way there is
// out of date.
void Ssd::forget_fetched(std::uint64_t first, std::uint64_t end) {
  read_cache_.drop_all(first, end);
  if (fetching_.empty()) return;
  for (std::uint64_t unit = first; unit < end; ++unit) {
    if (fetching_.find(unit) != nullptr) fetching_.erase(unit);
  }
}

// Takes data that are in memory over to the host. They pass through the buffer memory and over the link at once; other
// commands' data pass through the memory at the same time, and over the link by turns.
void Ssd::carry(Nanoseconds now, Command& command, std::uint64_t size_bytes) {
  Nanoseconds& passing = states_[command.index].passing_until;
  passing = std::max(passing, now) + transfer_ns(size_bytes, controller_.read_memory_rate);
  link_.carry_to_host(now, command, size_bytes);
}

void Ssd::part_done(Nanoseconds now, Command& command) {
  if (--command.pending > 0) return;
  const int stream = states_[command.index].stream;
  if (stream != ReadAhead::kNoStream) {
    read_ahead_.consumed(stream, command.request.offset_bytes + command.request.size_bytes);
    read_ahead(now, stream);
  }
  const Nanoseconds passing = states_[command.index].passing_until;
  if (passing > now) return events_.schedule(passing, *this, command.index << kWhatBits | kAcknowledge);
  respond(now, command);
}

void Ssd::read_ahead(Nanoseconds now, int stream) {
  if (stream == ReadAhead::kNoStream || commands_ > max_outstanding_) return;
  ReadAhead::Piece piece;
  while (read_ahead_.next_piece(stream, piece)) {
    const std::uint64_t first = first_unit(piece.begin_bytes);
    const std::uint64_t end = end_unit(piece.end_bytes);
    const std::uint64_t token = kPrefetch | piece.token;
    if (!ftl_->read(now, first, static_cast<std::uint32_t>(end - first), piece.end_bytes - piece.begin_bytes, token)) {
      piece_arrived(now, piece.token);
    }
  }
}

void Ssd::piece_arrived(Nanoseconds now, std::uint64_t token) {
  Command* command = read_ahead_.arrived(token);
  while (command != nullptr) {
    Command* next = command->next;
    const State& state = states_[command->index];
    if (read_ahead_.ready_or_wait(state.stream, command->request.offset_bytes + state.covered_bytes, *command)) {
      carry(now, *command, state.covered_bytes);
      part_done(now, *command);
    }
    command = next;
  }
}

void Ssd::read_progress(Nanoseconds now, std::uint64_t token, std::uint64_t size_bytes) {
  if ((token & kWho) == kDemand) carry(now, *pieces_[token & ~kWho].command, size_bytes);
}

void Ssd::read_done(Nanoseconds now, std::uint64_t token) {
  switch (token & kWho) {
    case kDemand:
      return demand_done(now, static_cast<std::uint32_t>(token & ~kWho));
    case kPrefetch:
      return piece_arrived(now, token & ~kWho);
    case kFill:
      return filled(now, *states_[token & ~kWho].command);
    default:
      return;
  }
}

// ---- writing

void Ssd::begin_write(Nanoseconds now, Command& command) {
  const Request& request = command.request;
  read_ahead_.invalidate(request.offset_bytes, request.size_bytes);
  const std::uint64_t end_bytes = request.offset_bytes + request.size_bytes;
  forget_fetched(first_unit(request.offset_bytes), end_unit(end_bytes));
  for (std::uint64_t unit = first_unit(request.offset_bytes); keeps_written_ && unit < end_unit(end_bytes); ++unit) {
    read_cache_.insert(unit);
  }
  // units of which the command has only a part need the rest from flash
  command.pending = 1;  // counts this function itself, until it has started the reads of what is missing
  if (request.offset_bytes % unit_bytes_ != 0) fill(now, command, first_unit(request.offset_bytes));
  if (end_bytes % unit_bytes_ != 0 &&
      (request.offset_bytes % unit_bytes_ == 0 || first_unit(request.offset_bytes) != first_unit(end_bytes))) {
    fill(now, command, first_unit(end_bytes));
  }
  command.cursor_bytes = request.offset_bytes;
  if (!write_back_) return filled(now, command);
  if (waiting_first_ == nullptr && accept(now, command)) return;
  ++counters_.buffer_full_waits;
  command.next = nullptr;
  (waiting_first_ == nullptr ? waiting_first_ : waiting_last_->next) = &command;
  waiting_last_ = &command;
}

void Ssd::fill(Nanoseconds now, Command& command, std::uint64_t unit) {
  if (buffer_.holds(unit)) return;
  if (ftl_->read(now, unit, 1, unit_bytes_, kFill | command.index)) ++command.pending;
}

// The rest of a unit of which a write has only a part is in memory. A buffered write has not waited for it; a write
// that goes to flash has.
void Ssd::filled(Nanoseconds now, Command& command) {
  if (write_back_ || --command.pending > 0) return;
  write_through(now, command);
}

// Takes as much of the write into the buffer as there is room for; false when some of it has to wait.
bool Ssd::accept(Nanoseconds now, Command& command) {
  const Request& request = command.request;
  const std::uint64_t end = end_unit(request.offset_bytes + request.size_bytes);
  std::uint64_t unit = first_unit(command.cursor_bytes);
  while (unit < end && buffer_.take(unit)) ++unit;
  if (unit < end) {
    command.cursor_bytes = unit * unit_bytes_;
    destage(now, true);
    return false;
  }
  Nanoseconds done =
      now + transfer_ns(request.size_bytes, controller_.write_memory_rate) + buffer_parameters_.acknowledge_time;
  if (!buffer_.continues_stream(request.offset_bytes, request.size_bytes)) {
    // the search began when the command arrived, and went on while its data came over the link
    const Nanoseconds hidden = link_.data_ns(request.size_bytes);
    done +=
        buffer_parameters_.new_segment_time + std::max<Nanoseconds>(buffer_parameters_.segment_search_time - hidden, 0);
  }
  events_.schedule(done, *this, command.index << kWhatBits | kAcknowledge);
  destage(now, false);
  return true;
}

// Without a write buffer that may acknowledge, a command completes when its units are in flash.
void Ssd::write_through(Nanoseconds now, Command& command) {
  const Request& request = command.request;
  const std::uint64_t end = end_unit(request.offset_bytes + request.size_bytes);
  command.pending = 1;
  for (std::uint64_t unit = first_unit(request.offset_bytes); unit < end;) {
    batch_.clear();
    while (unit < end && batch_.size() < ftl_->program_units()) batch_.push_back(unit++);
    ++command.pending;
    ftl_->write(now, batch_.data(), static_cast<std::uint32_t>(batch_.size()), kThrough | command.index);
  }
  if (--command.pending == 0) respond(now, command);
}

// Sends waiting units to flash, by full batches, or whatever there is if `partial`.
void Ssd::destage(Nanoseconds now, bool partial) {
  while (buffer_.batch_free() && buffer_.waiting_units() >= (partial ? 1 : ftl_->program_units())) {
    const std::uint32_t batch = buffer_.begin_batch(batch_);
    if (batch_.empty()) {  // all that waited has been discarded
      buffer_.end_batch(batch);
      return;
    }
    ftl_->write(now, batch_.data(), static_cast<std::uint32_t>(batch_.size()), kBatch | batch);
  }
  if (buffer_.waiting_units() > 0 && !destage_timer_) {
    destage_timer_ = true;
    events_.schedule(now + buffer_parameters_.destage_delay, *this, kDestage);
  }
}

void Ssd::write_done(Nanoseconds now, std::uint64_t token, std::uint32_t) {
  if ((token & kWho) == kThrough) {
    Command& command = *states_[token & ~kWho].command;
    if (--command.pending == 0) respond(now, command);
    return;
  }
  buffer_.end_batch(static_cast<std::uint32_t>(token & ~kWho));
  while (waiting_first_ != nullptr) {
    Command* next = waiting_first_->next;
    if (!accept(now, *waiting_first_)) break;
    waiting_first_ = next;
  }
  destage(now, waiting_first_ != nullptr || !flushes_.empty());
  end_flushes(now);
}

// ---- flush, discard, response

void Ssd::begin_flush(Nanoseconds now, Command& command) {
  if (!write_back_ || buffer_parameters_.power_loss_protected) return respond(now, command);
  states_[command.index].flush_target = buffer_.taken();
  flushes_.push_back(&command);
  destage(now, true);
  end_flushes(now);
}

// A flush ends once as many units have left the buffer as had entered it when the flush arrived.
void Ssd::end_flushes(Nanoseconds now) {
  while (!flushes_.empty() && states_[flushes_.front()->index].flush_target <= buffer_.left()) {
    Command& command = *flushes_.front();
    flushes_.erase(flushes_.begin());
    respond(now, command);
  }
}

void Ssd::begin_discard(Nanoseconds now, Command& command) {
  const Request& request = command.request;
  read_ahead_.invalidate(request.offset_bytes, request.size_bytes);
  // only whole units can be forgotten
  const std::uint64_t first = end_unit(request.offset_bytes);
  const std::uint64_t end = first_unit(request.offset_bytes + request.size_bytes);
  if (first < end) {
    forget_fetched(first, end);
    buffer_.forget_all(first, end);
    ftl_->discard(now, first, end - first);
    // no other command passes through the controller meanwhile
    const Nanoseconds done = now + static_cast<Nanoseconds>(end - first) * controller_.discard_unit_time;
    accepts_from_ = std::max(accepts_from_, done);
    if (done > now) return events_.schedule(done, *this, command.index << kWhatBits | kAcknowledge);
  }
  respond(now, command);
}

void Ssd::respond(Nanoseconds now, Command& command) {
  --commands_;
  last_activity_ = now;
  if (commands_ == 0 && background_idle_ > 0 && !idle_timer_) {
    idle_timer_ = true;
    events_.schedule(now + background_idle_, *this, kIdle);
  }
  link_.respond(now, command);
}

}  // namespace twin
