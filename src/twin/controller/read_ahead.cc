// Detection of sequential streams, and the pieces in their windows.
#include "controller/read_ahead.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace twin {
namespace {

// A token consists of a stream and of the number of a piece. Its four highest bits are free for the caller.
constexpr unsigned kPieceBits = 40;

}  // namespace

ReadAhead::ReadAhead(const ReadAheadParameters& parameters, std::uint64_t unit_bytes, std::uint64_t capacity_bytes,
                     Counters& counters)
    : trigger_commands_(parameters.trigger_commands),
      window_bytes_(static_cast<std::uint64_t>(parameters.window)),
      piece_bytes_(static_cast<std::uint64_t>(parameters.refill)),
      capacity_bytes_(capacity_bytes),
      counters_(counters) {
  if (parameters.window == 0) return;
  if (piece_bytes_ == 0 || piece_bytes_ % unit_bytes != 0) {
    throw std::invalid_argument("read_ahead.refill: must be a multiple of the mapping unit, and greater than 0");
  }
  if (window_bytes_ < piece_bytes_) throw std::invalid_argument("read_ahead.window: must not be less than refill");
  if (parameters.enabled) streams_.resize(static_cast<std::size_t>(parameters.streams), empty_stream());
}

ReadAhead::Stream ReadAhead::empty_stream() const {
  Stream stream;
  // The ring buffer has an extra piece at each end of the window, because readers need not be aligned to pieces.
  stream.slots.resize(window_bytes_ / piece_bytes_ + 3);
  return stream;
}

// Drops the data of a stream and starts detection again at `next_bytes`. Returns the number of the stream that follows
// the reader from now on: another one if commands wait for pieces of this one.
std::size_t ReadAhead::restart(std::size_t number, std::uint64_t next_bytes) {
  Stream& dropped = streams_[number];
  if (dropped.end_bytes > dropped.next_bytes) {
    counters_.prefetch_wasted_bytes += dropped.end_bytes - std::max(dropped.next_bytes, dropped.begin_bytes);
  }
  if (has_waiters(dropped)) {
    dropped.detached = true;
    const std::uint64_t last_use = dropped.last_use;
    const auto unused = std::find_if(streams_.begin(), streams_.end(),
                                     [](const Stream& each) { return each.detached && !has_waiters(each); });
    number = static_cast<std::size_t>(unused - streams_.begin());
    if (unused == streams_.end()) streams_.push_back(empty_stream());
    streams_[number].last_use = last_use;
  }
  Stream& stream = streams_[number];
  stream.detached = false;
  stream.next_bytes = next_bytes;
  stream.begin_bytes = stream.end_bytes = next_bytes;
  stream.begin_piece = stream.end_piece;
  stream.sequential_commands = 1;
  return number;
}

int ReadAhead::observe(const Request& request) {
  if (streams_.empty()) return kNoStream;
  ++use_clock_;
  const std::uint64_t end_bytes = request.offset_bytes + request.size_bytes;
  std::size_t oldest = streams_.size();
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    if (stream.detached) continue;
    if (stream.sequential_commands > 0 && stream.next_bytes == request.offset_bytes) {
      ++stream.sequential_commands;
      stream.next_bytes = end_bytes;
      stream.last_use = use_clock_;
      return static_cast<int>(i);
    }
    if (oldest == streams_.size() || stream.last_use < streams_[oldest].last_use) oldest = i;
  }
  const std::size_t assigned = restart(oldest, end_bytes);
  streams_[assigned].last_use = use_clock_;
  return static_cast<int>(assigned);
}

std::uint64_t ReadAhead::covered_bytes(int stream, std::uint64_t offset_bytes) const {
  if (stream == kNoStream) return 0;
  const Stream& s = streams_[static_cast<std::size_t>(stream)];
  return !s.detached && offset_bytes >= s.begin_bytes && offset_bytes < s.end_bytes ? s.end_bytes - offset_bytes : 0;
}

std::uint64_t ReadAhead::piece_end(std::uint64_t begin_bytes) const {
  return std::min((begin_bytes / piece_bytes_ + 1) * piece_bytes_, capacity_bytes_);
}

bool ReadAhead::ready_or_enqueue(int stream, std::uint64_t end_bytes, Command& command) {
  Stream& s = streams_[static_cast<std::size_t>(stream)];
  std::uint64_t begin = s.begin_bytes;
  for (std::uint64_t piece = s.begin_piece; piece < s.end_piece && begin < end_bytes; ++piece) {
    Slot& slot = s.slots[piece % s.slots.size()];
    if (!slot.arrived) {
      command.next = slot.waiters;
      slot.waiters = &command;
      return false;
    }
    begin = piece_end(begin);
  }
  return true;
}

void ReadAhead::release_below(int stream, std::uint64_t offset_bytes) {
  Stream& s = streams_[static_cast<std::size_t>(stream)];
  if (offset_bytes > s.next_bytes) return;  // by now the stream follows another reader
  while (s.begin_piece < s.end_piece) {
    const std::uint64_t end = piece_end(s.begin_bytes);
    const Slot& slot = s.slots[s.begin_piece % s.slots.size()];
    if (end > offset_bytes || !slot.arrived) break;
    s.begin_bytes = end;
    ++s.begin_piece;
  }
}

std::optional<ReadAhead::Piece> ReadAhead::reserve_next_piece(int stream) {
  Stream& s = streams_[static_cast<std::size_t>(stream)];
  if (s.detached || s.sequential_commands < trigger_commands_ || s.end_piece - s.begin_piece >= s.slots.size())
    return std::nullopt;
  if (s.begin_piece == s.end_piece) s.begin_bytes = s.end_bytes = s.next_bytes;
  // A request longer than the window passes the prefetched data. Once they are released, prefetching starts after it.
  if (s.end_bytes < s.next_bytes || s.end_bytes >= capacity_bytes_) return std::nullopt;
  const std::uint64_t end = piece_end(s.end_bytes);
  // a piece is prefetched when it fits completely into the window; alignment may shorten the first one
  if (end > s.next_bytes + window_bytes_) return std::nullopt;
  const Piece piece{s.end_bytes, end, static_cast<std::uint64_t>(stream) << kPieceBits | s.end_piece};
  s.slots[s.end_piece % s.slots.size()] = Slot{};
  ++s.end_piece;
  s.end_bytes = end;
  counters_.prefetched_bytes += piece.end_bytes - piece.begin_bytes;
  return piece;
}

Command* ReadAhead::complete_piece(std::uint64_t token) {
  Stream& s = streams_[token >> kPieceBits];
  const std::uint64_t piece = token & ((1ULL << kPieceBits) - 1);
  if (piece < s.begin_piece) return nullptr;  // dropped by restart()
  Slot& slot = s.slots[piece % s.slots.size()];
  slot.arrived = true;
  return std::exchange(slot.waiters, nullptr);
}

void ReadAhead::invalidate(std::uint64_t offset_bytes, std::uint64_t size_bytes) {
  for (std::size_t i = streams_.size(); i > 0; --i) {  // from the last one, because restart() may add streams
    const Stream& stream = streams_[i - 1];
    if (stream.detached || stream.begin_bytes >= offset_bytes + size_bytes || stream.end_bytes <= offset_bytes)
      continue;
    restart(i - 1, stream.next_bytes);
  }
}

// Returns whether a command waits for a piece of the stream.
bool ReadAhead::has_waiters(const Stream& stream) {
  for (std::uint64_t piece = stream.begin_piece; piece < stream.end_piece; ++piece) {
    if (stream.slots[piece % stream.slots.size()].waiters != nullptr) return true;
  }
  return false;
}

}  // namespace twin
