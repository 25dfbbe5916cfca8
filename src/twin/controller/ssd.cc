// Execution of commands by the controller of an SSD.
#include "controller/ssd.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace twin {
namespace {

// Kinds of events. An event consists of its kind and, for the first two kinds, the index of its command.
enum : std::uint64_t { kDecoded, kAcknowledge, kDestage, kIdle, kAccept };
constexpr unsigned kWhatBits = 3;

// The highest bits of a token of the FTL say what the flash operation is for, and what the lower bits are.
enum : std::uint64_t {
  kReadPiece = 0ULL << 60,     // a read command; slot of the piece
  kPrefetch = 1ULL << 60,      // read-ahead; token of ReadAhead
  kRestOfUnit = 2ULL << 60,    // the rest of a unit that is partly written; index of the write command
  kWriteThrough = 3ULL << 60,  // a write command that waits for the flash; index of the command
  kBatch = 4ULL << 60,         // the write buffer; number of the batch
  kPurpose = 15ULL << 60,      // mask
};

// A drive that is too hot accepts no commands for a part of each period.
constexpr Nanoseconds kThrottlePeriod = 10 * kMillisecond;

// Largest number of units for which commands can wait for each other's pieces.
constexpr std::size_t kMaxSharedUnits = 1 << 16;

}  // namespace

Ssd::Ssd(const SsdParameters& parameters, std::uint64_t capacity_bytes, const MakeFtl& make_ftl, Link& link,
         EventQueue& events, Counters& counters, std::uint64_t seed)
    : parameters_(parameters),
      link_(link),
      events_(events),
      counters_(counters),
      ftl_(make_ftl(*this)),
      unit_bytes_(ftl_->properties().unit_bytes),
      block_bytes_(std::min(unit_bytes_, kBlockBytes)),
      read_cache_(static_cast<std::uint64_t>(parameters.read_cache.size), unit_bytes_, parameters.read_cache.enabled),
      read_ahead_(parameters.read_ahead, unit_bytes_, capacity_bytes, counters),
      buffer_(parameters.write_buffer, unit_bytes_, ftl_->properties().program_units,
              ftl_->properties().parallel_programs),
      piece_of_unit_(kMaxSharedUnits),
      write_back_(parameters.write_buffer.size > 0 &&
                  (parameters.write_buffer.enabled || parameters.write_buffer.power_loss_protected)),
      reorder_threshold_(threshold(parameters.controller.reordering)),
      locality_threshold_(threshold(parameters.controller.read_locality)),
      random_(mix(seed)) {
  batch_.reserve(ftl_->properties().program_units);
  const auto initial_bytes = static_cast<std::uint64_t>(parameters.read_cache.initial);
  const std::uint64_t cached = read_cache_.enabled() ? std::min(initial_bytes, capacity_bytes) / unit_bytes_ : 0;
  for (std::uint64_t unit = 0; unit < cached; ++unit) read_cache_.insert(unit);
}

void Ssd::start(Nanoseconds now, Command& command) {
  ++commands_;
  last_activity_ = now;
  if (command.index >= states_.size()) states_.resize(2 * command.index + 64);
  states_[command.index].command = &command;
  if (parameters_.controller.completion_window > 0 && command.request.operation == Operation::kRead) {
    read_queue(command.request.job).outstanding.push_back(&command);
  }
  if (reorder_threshold_ == 0 || (waiting_.empty() && accepts_from_ <= now)) return accept(now, command);
  if (waiting_.empty()) events_.schedule(accepts_from_, *this, kAccept);
  waiting_.push_back(&command);
}

// Takes a command that waits for the controller: a random one, or the oldest.
void Ssd::accept_next(Nanoseconds now) {
  const std::size_t index = random_.next() < reorder_threshold_ ? random_.below(waiting_.size()) : 0;
  Command& command = *waiting_[index];
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(index));
  accept(now, command);
  if (!waiting_.empty()) events_.schedule(accepts_from_, *this, kAccept);
}

void Ssd::accept(Nanoseconds now, Command& command) {
  Nanoseconds begin = std::max(accepts_from_, now);
  if (parameters_.controller.throttle > 0) {
    const auto closed = static_cast<Nanoseconds>(parameters_.controller.throttle * kThrottlePeriod);
    const Nanoseconds since = begin % kThrottlePeriod;
    if (since < closed) begin += closed - since;
  }
  const bool read = command.request.operation == Operation::kRead;
  accepts_from_ = begin + (read ? parameters_.controller.read_interval : parameters_.controller.write_interval);
  events_.schedule(
      begin + (read ? parameters_.controller.read_command_time : parameters_.controller.write_command_time), *this,
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
    case kAcknowledge: {
      Command& command = *states_[what >> kWhatBits].command;
      return command.request.operation == Operation::kRead ? end_read(now, command) : respond(now, command);
    }
    case kAccept:
      return accept_next(now);
    case kDestage:
      destage_timer_ = false;
      return destage(now, true);
    case kIdle: {
      idle_timer_ = false;
      if (commands_ > 0) return;  // the next response sets the timer again
      const Nanoseconds due = last_activity_ + ftl_->properties().background_idle;
      if (now >= due) return ftl_->idle(now);
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
  State& state = states_[command.index];
  state.in_memory_until = now;
  command.pending = 1;  // stands for this function, until it has started all parts
  state.stream = read_ahead_.observe(request);
  state.covered_bytes = std::min(read_ahead_.covered_bytes(state.stream, request.offset_bytes), request.size_bytes);
  const std::uint64_t covered_end = request.offset_bytes + state.covered_bytes;
  if (state.covered_bytes > 0) {
    if (state.covered_bytes == request.size_bytes) ++counters_.prefetch_hits;
    if (read_ahead_.ready_or_enqueue(state.stream, covered_end, command)) {
      data_in_memory(now, command, state.covered_bytes);
    } else {
      ++command.pending;
    }
  }
  read_range(now, command, covered_end, request.offset_bytes + request.size_bytes);
  prefetch(now, state.stream);  // after the command's own data
  complete_part(now, command);
}

// Serves the range [begin_bytes, end_bytes) of a read. Data in memory go to the host; other data are read from flash in
// pieces of at most a flash page, and go to the host as they arrive.
void Ssd::read_range(Nanoseconds now, Command& command, std::uint64_t begin_bytes, std::uint64_t end_bytes) {
  if (begin_bytes >= end_bytes) return;
  // where a unit is: in memory, in flash, or else the slot of the piece with which it is being read
  constexpr std::uint32_t kInMemory = 0xFFFFFFFF;
  constexpr std::uint32_t kInFlash = 0xFFFFFFFE;
  const auto where = [this](std::uint64_t unit) {
    if (buffer_.contains(unit) || read_cache_.hit(unit)) return kInMemory;
    const std::uint32_t* piece = piece_of_unit_.empty() ? nullptr : piece_of_unit_.find(unit);
    return piece == nullptr ? kInFlash : *piece;
  };
  const std::uint64_t page_units = ftl_->properties().page_units;
  const std::uint64_t end = end_unit(end_bytes);
  bool all_in_memory = true;
  std::uint64_t unit = first_unit(begin_bytes);
  while (unit < end) {
    const std::uint64_t piece_end = std::min(end, (unit / page_units + 1) * page_units);
    // a run of units before piece_end that are all in the same place
    const std::uint32_t here = where(unit);
    std::uint64_t run_end = unit + 1;
    while (run_end < piece_end && where(run_end) == here) ++run_end;
    const std::uint64_t from_bytes = std::max(begin_bytes, unit * unit_bytes_);
    const std::uint64_t size_bytes = std::min(end_bytes, run_end * unit_bytes_) - from_bytes;
    all_in_memory &= here == kInMemory;
    if (here == kInMemory) {
      data_in_memory(now, command, size_bytes);
    } else if (here == kInFlash) {
      read_piece(now, command, unit, run_end, from_bytes % block_bytes_, size_bytes);
    } else {
      ++command.pending;
      pieces_[here].waiters.push_back({&command, size_bytes});
    }
    unit = run_end;
  }
  if (all_in_memory) ++counters_.buffer_read_hits;
}

// Reads units, from `first` to before `end`, from flash. `skip_bytes` of a block arrive before the `size_bytes` that
// the command needs.
void Ssd::read_piece(Nanoseconds now, Command& command, std::uint64_t first, std::uint64_t end,
                     std::uint64_t skip_bytes, std::uint64_t size_bytes) {
  const std::uint32_t piece = pieces_.take({&command, first, end, skip_bytes, {}});
  const auto units = static_cast<std::uint32_t>(end - first);
  const std::uint64_t place = locality_threshold_ == 0 ? first : place_of(first, units, command.request.job);
  if (ftl_->read(now, place, units, skip_bytes + size_bytes, kReadPiece | piece)) {
    ++command.pending;
    if (!read_cache_.enabled()) return;
    for (std::uint64_t unit = first; unit < end && !piece_of_unit_.full(); ++unit) piece_of_unit_.insert(unit, piece);
    return;
  }
  pieces_.release(piece);
  for (std::uint64_t unit = first; unit < end; ++unit) read_cache_.insert(unit);
  data_in_memory(now, command, size_bytes);
}

// Returns the first of the units that lie where data of a job are: its previous piece of the same size, or the data.
std::uint64_t Ssd::place_of(std::uint64_t unit, std::uint32_t units, std::uint32_t job) {
  ReadQueue& queue = read_queue(job);
  if (random_.next() >= locality_threshold_ || units != queue.last_units) queue.last_unit = unit;
  queue.last_units = units;
  return queue.last_unit;
}

void Ssd::complete_piece(Nanoseconds now, std::uint32_t number) {
  const Piece piece = std::move(pieces_[number]);
  pieces_.release(number);
  for (std::uint64_t unit = piece.first; unit < piece.end && !piece_of_unit_.empty(); ++unit) {
    const std::uint32_t* reader = piece_of_unit_.find(unit);
    if (reader == nullptr || *reader != number) continue;  // written in the meantime
    piece_of_unit_.erase(unit);
    read_cache_.insert(unit);
  }
  complete_part(now, *piece.command);
  for (const PieceWaiter& waiter : piece.waiters) {
    data_in_memory(now, *waiter.command, waiter.size_bytes);
    complete_part(now, *waiter.command);
  }
}

// Removes units, from `first` to before `end`, that the host writes or discards from the read cache and from the pieces
// that other commands can wait for.
void Ssd::remove_read_units(std::uint64_t first, std::uint64_t end) {
  read_cache_.remove_range(first, end);
  if (piece_of_unit_.empty()) return;
  for (std::uint64_t unit = first; unit < end; ++unit) {
    if (piece_of_unit_.find(unit) != nullptr) piece_of_unit_.erase(unit);
  }
}

// Records that data of a read are in memory. They go to the host in blocks, counted from the first byte of the command
// wherever that lies in a page, so a read whose data are on two pages is not sent in smaller blocks than another.
void Ssd::data_in_memory(Nanoseconds now, Command& command, std::uint64_t size_bytes) {
  std::uint64_t& arrived = states_[command.index].arrived_bytes;
  arrived += size_bytes;
  const std::uint64_t rest = arrived % block_bytes_;
  if (arrived == rest) return;
  transfer_to_host(now, command, arrived - rest);
  arrived = rest;
}

// Transfers data in memory to the host. They pass through the buffer memory and over the link at the same time. The
// data of several commands pass through the memory in parallel, and over the link one after another.
void Ssd::transfer_to_host(Nanoseconds now, Command& command, std::uint64_t size_bytes) {
  Nanoseconds& until = states_[command.index].in_memory_until;
  until = std::max(until, now) + transfer_ns(size_bytes, parameters_.controller.read_memory_rate);
  link_.transfer_to_host(now, command, size_bytes);
}

// Counts down the pending parts of a read, and completes the read after the last one.
void Ssd::complete_part(Nanoseconds now, Command& command) {
  if (--command.pending > 0) return;
  State& state = states_[command.index];
  if (state.arrived_bytes > 0) transfer_to_host(now, command, std::exchange(state.arrived_bytes, 0));
  if (state.stream != ReadAhead::kNoStream) {
    read_ahead_.release_below(state.stream, command.request.offset_bytes + command.request.size_bytes);
    prefetch(now, state.stream);
  }
  if (state.in_memory_until <= now) return end_read(now, command);
  events_.schedule(state.in_memory_until, *this, command.index << kWhatBits | kAcknowledge);
}

void Ssd::prefetch(Nanoseconds now, int stream) {
  if (stream == ReadAhead::kNoStream || commands_ > parameters_.read_ahead.max_outstanding) return;
  while (const auto piece = read_ahead_.reserve_next_piece(stream)) {
    const std::uint64_t first = first_unit(piece->begin_bytes);
    const auto count = static_cast<std::uint32_t>(end_unit(piece->end_bytes) - first);
    const std::uint64_t size_bytes = piece->end_bytes - piece->begin_bytes / block_bytes_ * block_bytes_;
    if (!ftl_->read(now, first, count, size_bytes, kPrefetch | piece->token)) {
      complete_prefetch(now, piece->token);
    }
  }
}

void Ssd::complete_prefetch(Nanoseconds now, std::uint64_t token) {
  for (Command* command = read_ahead_.complete_piece(token); command != nullptr;) {
    Command* next = command->next;
    const State& state = states_[command->index];
    if (read_ahead_.ready_or_enqueue(state.stream, command->request.offset_bytes + state.covered_bytes, *command)) {
      data_in_memory(now, *command, state.covered_bytes);
      complete_part(now, *command);
    }
    command = next;
  }
}

void Ssd::read_progress(Nanoseconds now, std::uint64_t token, std::uint64_t size_bytes) {
  if ((token & kPurpose) != kReadPiece) return;
  Piece& piece = pieces_[token & ~kPurpose];
  const std::uint64_t skipped = std::min(piece.skip_bytes, size_bytes);
  piece.skip_bytes -= skipped;
  data_in_memory(now, *piece.command, size_bytes - skipped);
}

void Ssd::read_done(Nanoseconds now, std::uint64_t token) {
  switch (token & kPurpose) {
    case kReadPiece:
      return complete_piece(now, static_cast<std::uint32_t>(token & ~kPurpose));
    case kPrefetch:
      return complete_prefetch(now, token & ~kPurpose);
    case kRestOfUnit:
      return complete_rest_of_unit(now, *states_[token & ~kPurpose].command);
    default:
      return;
  }
}

// ---- writing

void Ssd::begin_write(Nanoseconds now, Command& command) {
  const Request& request = command.request;
  read_ahead_.invalidate(request.offset_bytes, request.size_bytes);
  const std::uint64_t end_bytes = request.offset_bytes + request.size_bytes;
  remove_read_units(first_unit(request.offset_bytes), end_unit(end_bytes));
  for (std::uint64_t unit = first_unit(request.offset_bytes);
       parameters_.read_cache.keeps_written && unit < end_unit(end_bytes); ++unit) {
    read_cache_.insert(unit);
  }
  // if the command writes only a part of a unit, the rest of the unit is read from flash
  command.pending = 1;  // stands for this function, until it has started these reads
  if (request.offset_bytes % unit_bytes_ != 0) read_rest_of_unit(now, command, first_unit(request.offset_bytes));
  if (end_bytes % unit_bytes_ != 0 &&
      (request.offset_bytes % unit_bytes_ == 0 || first_unit(request.offset_bytes) != first_unit(end_bytes))) {
    read_rest_of_unit(now, command, first_unit(end_bytes));
  }
  command.cursor_bytes = request.offset_bytes;
  if (!write_back_) return complete_rest_of_unit(now, command);
  if (blocked_writes_.empty() && buffer_write(now, command)) return;
  ++counters_.buffer_full_waits;
  blocked_writes_.push_back(&command);
}

void Ssd::read_rest_of_unit(Nanoseconds now, Command& command, std::uint64_t unit) {
  if (buffer_.contains(unit)) return;
  if (ftl_->read(now, unit, 1, unit_bytes_, kRestOfUnit | command.index)) ++command.pending;
}

// Handles the arrival of the rest of a unit that a command writes partly. Only a write without buffer waits for it.
void Ssd::complete_rest_of_unit(Nanoseconds now, Command& command) {
  if (write_back_ || --command.pending > 0) return;
  write_through(now, command);
}

// Adds units of a write to the buffer until it is full. Returns whether the complete write is in the buffer.
bool Ssd::buffer_write(Nanoseconds now, Command& command) {
  const Request& request = command.request;
  const std::uint64_t end = end_unit(request.offset_bytes + request.size_bytes);
  std::uint64_t unit = first_unit(command.cursor_bytes);
  while (unit < end && buffer_.add(unit)) ++unit;
  if (unit < end) {
    command.cursor_bytes = unit * unit_bytes_;
    destage(now, true);
    return false;
  }
  Nanoseconds done = now + transfer_ns(request.size_bytes, parameters_.controller.write_memory_rate) +
                     parameters_.write_buffer.acknowledge_time;
  if (!buffer_.continues_stream(request.offset_bytes, request.size_bytes)) {
    // the search runs in parallel with the transfer of the data
    const Nanoseconds search = parameters_.write_buffer.segment_search_time - link_.data_ns(request.size_bytes);
    done += parameters_.write_buffer.new_segment_time + std::max<Nanoseconds>(search, 0);
  }
  events_.schedule(done, *this, command.index << kWhatBits | kAcknowledge);
  destage(now, false);
  return true;
}

// Writes a command's units to flash. The command is complete when they are programmed.
void Ssd::write_through(Nanoseconds now, Command& command) {
  const Request& request = command.request;
  const std::uint64_t end = end_unit(request.offset_bytes + request.size_bytes);
  command.pending = 1;
  for (std::uint64_t unit = first_unit(request.offset_bytes); unit < end;) {
    batch_.clear();
    while (unit < end && batch_.size() < ftl_->properties().program_units) batch_.push_back(unit++);
    ++command.pending;
    ftl_->write(now, batch_, kWriteThrough | command.index);
  }
  if (--command.pending == 0) respond(now, command);
}

// Writes waiting units to flash in full batches; with `partial`, also the rest.
void Ssd::destage(Nanoseconds now, bool partial) {
  while (buffer_.can_begin_batch() && buffer_.waiting_units() >= (partial ? 1 : ftl_->properties().program_units)) {
    const std::uint32_t batch = buffer_.begin_batch(batch_);
    if (batch_.empty()) {  // all waiting units have been discarded
      buffer_.end_batch(batch);
      return;
    }
    ftl_->write(now, batch_, kBatch | batch);
  }
  // if the flash accepts no batch, write_done() calls again; a timer of length 0 would fire for ever until then
  const bool timed = parameters_.write_buffer.destage_delay > 0 || buffer_.can_begin_batch();
  if (buffer_.waiting_units() > 0 && timed && !destage_timer_) {
    destage_timer_ = true;
    events_.schedule(now + parameters_.write_buffer.destage_delay, *this, kDestage);
  }
}

void Ssd::write_done(Nanoseconds now, std::uint64_t token) {
  if ((token & kPurpose) == kWriteThrough) {
    Command& command = *states_[token & ~kPurpose].command;
    if (--command.pending == 0) respond(now, command);
    return;
  }
  buffer_.end_batch(static_cast<std::uint32_t>(token & ~kPurpose));
  while (!blocked_writes_.empty() && buffer_write(now, *blocked_writes_.front())) blocked_writes_.pop_front();
  destage(now, !blocked_writes_.empty() || !flushes_.empty());
  complete_flushes(now);
}

// ---- flush, discard, response

void Ssd::begin_flush(Nanoseconds now, Command& command) {
  if (!write_back_ || parameters_.write_buffer.power_loss_protected) return respond(now, command);
  states_[command.index].flush_target = buffer_.units_added();
  flushes_.push_back(&command);
  destage(now, true);
  complete_flushes(now);
}

// Completes each flush for which all units that were in the buffer at its arrival have left.
void Ssd::complete_flushes(Nanoseconds now) {
  while (!flushes_.empty() && states_[flushes_.front()->index].flush_target <= buffer_.units_removed()) {
    Command& command = *flushes_.front();
    flushes_.pop_front();
    respond(now, command);
  }
}

void Ssd::begin_discard(Nanoseconds now, Command& command) {
  const Request& request = command.request;
  read_ahead_.invalidate(request.offset_bytes, request.size_bytes);
  // only complete units can be discarded
  const std::uint64_t first = end_unit(request.offset_bytes);
  const std::uint64_t end = first_unit(request.offset_bytes + request.size_bytes);
  if (first < end) {
    remove_read_units(first, end);
    buffer_.drop_range(first, end);
    ftl_->discard(now, first, end - first);
    // the controller accepts no other command meanwhile
    const Nanoseconds done = now + static_cast<Nanoseconds>(end - first) * parameters_.controller.discard_unit_time;
    accepts_from_ = std::max(accepts_from_, done);
    if (done > now) return events_.schedule(done, *this, command.index << kWhatBits | kAcknowledge);
  }
  respond(now, command);
}

Ssd::ReadQueue& Ssd::read_queue(std::uint32_t job) {
  if (job >= read_queues_.size()) read_queues_.resize(job + 1UL);
  return read_queues_[job];
}

// Responds to a read whose data are in memory, and then to the reads of its queue that waited for it. A read outside
// the window waits instead.
void Ssd::end_read(Nanoseconds now, Command& command) {
  const auto window = static_cast<std::size_t>(parameters_.controller.completion_window);
  if (window == 0) return respond(now, command);
  states_[command.index].is_done = true;
  std::deque<Command*>& reads = read_queue(command.request.job).outstanding;
  for (std::size_t i = 0; i < std::min(window, reads.size());) {
    Command& read = *reads[i];
    if (!std::exchange(states_[read.index].is_done, false)) {
      ++i;
      continue;
    }
    reads.erase(reads.begin() + static_cast<std::ptrdiff_t>(i));
    respond(now, read);
  }
}

void Ssd::respond(Nanoseconds now, Command& command) {
  --commands_;
  last_activity_ = now;
  if (commands_ == 0 && ftl_->properties().background_idle > 0 && !idle_timer_) {
    idle_timer_ = true;
    events_.schedule(now + ftl_->properties().background_idle, *this, kIdle);
  }
  link_.respond(now, command);
}

}  // namespace twin
