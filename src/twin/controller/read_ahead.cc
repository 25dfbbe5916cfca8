// Sequential streams: their detection, their window, and the pieces that are being fetched.
#include "controller/read_ahead.h"

#include <algorithm>
#include <stdexcept>

namespace twin {
namespace {

// A token names stream, generation and piece, in 6, 22 and 32 bits; the highest four are the caller's.
constexpr std::uint64_t kGenerationMask = 0x3FFFFF;
constexpr std::uint64_t kPieceMask = 0xFFFFFFFF;

std::uint64_t make_token(std::size_t stream, std::uint32_t generation, std::uint64_t piece) {
  return static_cast<std::uint64_t>(stream) << 54 | (generation & kGenerationMask) << 32 | (piece & kPieceMask);
}

}  // namespace

ReadAhead::ReadAhead(const ReadAheadParameters& parameters, std::uint64_t unit_bytes, std::uint64_t capacity_bytes,
                     Counters& counters)
    : enabled_(parameters.enabled && parameters.window > 0),
      trigger_commands_(parameters.trigger_commands),
      window_bytes_(static_cast<std::uint64_t>(parameters.window)),
      piece_bytes_(static_cast<std::uint64_t>(parameters.refill)),
      capacity_bytes_(capacity_bytes),
      counters_(counters) {
  if (parameters.window == 0) return;
  if (piece_bytes_ == 0 || piece_bytes_ % unit_bytes != 0) {
    throw std::invalid_argument("read_ahead.refill: must be a multiple of the mapped unit, and more than 0");
  }
  if (window_bytes_ < piece_bytes_) throw std::invalid_argument("read_ahead.window: must not be less than refill");
  streams_.resize(static_cast<std::size_t>(parameters.streams));
  // The ring has one piece more at each end than the window, since readers need not be aligned to pieces.
  for (Stream& stream : streams_) stream.slots.resize(window_bytes_ / piece_bytes_ + 3);
}

void ReadAhead::restart(Stream& stream, std::uint64_t next_bytes) {
  if (stream.end_bytes > stream.next_bytes) {
    counters_.prefetch_wasted_bytes += stream.end_bytes - std::max(stream.next_bytes, stream.begin_bytes);
  }
  ++stream.generation;
  stream.next_bytes = next_bytes;
  stream.begin_bytes = stream.end_bytes = next_bytes;
  stream.first_piece = stream.last_piece = 0;
  stream.contiguous = 1;
}

int ReadAhead::observe(const Request& request) {
  if (!enabled_) return kNoStream;
  ++clock_;
  const std::uint64_t end_bytes = request.offset_bytes + request.size_bytes;
  std::size_t oldest = 0;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    if (stream.contiguous > 0 && stream.next_bytes == request.offset_bytes) {
      ++stream.contiguous;
      stream.next_bytes = end_bytes;
      stream.used = clock_;
      return static_cast<int>(i);
    }
    if (stream.used < streams_[oldest].used) oldest = i;
  }
  Stream& stream = streams_[oldest];
  // a stream whose data some command waits for is not given to another reader before they have arrived
  for (std::uint64_t piece = stream.first_piece; piece < stream.last_piece; ++piece) {
    if (stream.slots[piece % stream.slots.size()].waiting != nullptr) return kNoStream;
  }
  restart(stream, end_bytes);
  stream.used = clock_;
  return static_cast<int>(oldest);
}

std::uint64_t ReadAhead::covered_bytes(int stream, std::uint64_t offset_bytes) const {
  if (stream == kNoStream) return 0;
  const Stream& s = streams_[static_cast<std::size_t>(stream)];
  return offset_bytes >= s.begin_bytes && offset_bytes < s.end_bytes ? s.end_bytes - offset_bytes : 0;
}

std::uint64_t ReadAhead::piece_end(std::uint64_t begin_bytes) const {
  return std::min((begin_bytes / piece_bytes_ + 1) * piece_bytes_, capacity_bytes_);
}

bool ReadAhead::ready_or_wait(int stream, std::uint64_t end_bytes, Command& command) {
  Stream& s = streams_[static_cast<std::size_t>(stream)];
  std::uint64_t begin = s.begin_bytes;
  for (std::uint64_t piece = s.first_piece; piece < s.last_piece && begin < end_bytes; ++piece) {
    Slot& slot = s.slots[piece % s.slots.size()];
    if (!slot.there) {
      command.next = slot.waiting;
      slot.waiting = &command;
      return false;
    }
    begin = piece_end(begin);
  }
  return true;
}

void ReadAhead::consumed(int stream, std::uint64_t offset_bytes) {
  Stream& s = streams_[static_cast<std::size_t>(stream)];
  while (s.first_piece < s.last_piece) {
    const std::uint64_t end = piece_end(s.begin_bytes);
    const Slot& slot = s.slots[s.first_piece % s.slots.size()];
    if (end > offset_bytes || !slot.there) break;
    s.begin_bytes = end;
    ++s.first_piece;
  }
}

bool ReadAhead::next_piece(int stream, Piece& piece) {
  Stream& s = streams_[static_cast<std::size_t>(stream)];
  if (s.contiguous < trigger_commands_ || s.last_piece - s.first_piece >= s.slots.size()) return false;
  if (s.first_piece == s.last_piece) s.begin_bytes = s.end_bytes = s.next_bytes;
  // a request longer than the window has passed what was fetched; once that is consumed, fetching starts beyond it
  if (s.end_bytes < s.next_bytes) return false;
  if (s.end_bytes >= capacity_bytes_) return false;
  const std::uint64_t end = piece_end(s.end_bytes);
  // a piece is fetched when a whole one fits into the window; the first one may be cut by alignment
  if (end > s.next_bytes + window_bytes_) return false;
  piece = {s.end_bytes, end, make_token(static_cast<std::size_t>(stream), s.generation, s.last_piece)};
  s.slots[s.last_piece % s.slots.size()] = Slot{};
  ++s.last_piece;
  s.end_bytes = end;
  counters_.prefetched_bytes += piece.end_bytes - piece.begin_bytes;
  return true;
}

Command* ReadAhead::arrived(std::uint64_t token) {
  Stream& s = streams_[static_cast<std::size_t>(token >> 54 & 0x3F)];
  if ((token >> 32 & kGenerationMask) != (s.generation & kGenerationMask)) return nullptr;
  // pieces are numbered from 0 in each generation; one that has lost its high bits is the next of its kind
  std::uint64_t piece = (s.first_piece & ~kPieceMask) | (token & kPieceMask);
  if (piece < s.first_piece) piece += kPieceMask + 1;
  Slot& slot = s.slots[piece % s.slots.size()];
  slot.there = true;
  Command* waiting = slot.waiting;
  slot.waiting = nullptr;
  return waiting;
}

void ReadAhead::invalidate(std::uint64_t offset_bytes, std::uint64_t size_bytes) {
  if (!enabled_) return;
  for (Stream& stream : streams_) {
    if (stream.begin_bytes >= offset_bytes + size_bytes || stream.end_bytes <= offset_bytes) continue;
    bool awaited = false;
    for (std::uint64_t piece = stream.first_piece; piece < stream.last_piece; ++piece) {
      awaited |= stream.slots[piece % stream.slots.size()].waiting != nullptr;
    }
    // an outstanding read may get the old data or the new: either is right as long as the write is outstanding, too
    if (!awaited) restart(stream, stream.next_bytes);
  }
}

}  // namespace twin
