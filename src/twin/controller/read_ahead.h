// Read-ahead: detects sequential read streams and schedules what to prefetch for them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "controller/controller_parameters.h"
#include "core/counters.h"
#include "core/request.h"

namespace twin {

// A stream follows one sequential reader. It prefetches pieces of `refill` bytes, aligned to `refill`, without gaps. A
// piece is dropped once the reader has passed it. When all streams are in use, the least recently used one is assigned
// to the new reader, and drops all its pieces. Pieces for which commands already wait are dropped when the last of
// these commands has its data; until then no other command finds them.
//
// ReadAhead only does the bookkeeping. The caller reads the pieces from the flash and transfers the data to the host.
// `stream` must not be kNoStream unless stated otherwise.
class ReadAhead {
 public:
  struct Piece {
    std::uint64_t begin_bytes = 0, end_bytes = 0;  // [begin, end) on the drive
    std::uint64_t token = 0;  // for complete_piece(); its upper four bits are 0, free for the caller
  };

  // Read-ahead is off if `parameters.enabled` is false or `parameters.window` is 0. Throws std::invalid_argument if the
  // window is not 0 and `refill` is 0, not a multiple of `unit_bytes`, or greater than the window. `counters` must
  // outlive this object.
  ReadAhead(const ReadAheadParameters& parameters, std::uint64_t unit_bytes, std::uint64_t capacity_bytes,
            Counters& counters);

  // Returns the stream that a read command continues, or assigns one to it. Call once for each read command. Returns
  // kNoStream if read-ahead is off.
  int observe(const Request& request);

  // Returns how many contiguous bytes from `offset_bytes` on are prefetched or being prefetched; 0 for kNoStream.
  [[nodiscard]] std::uint64_t covered_bytes(int stream, std::uint64_t offset_bytes) const;

  // Returns whether all data of the stream below `end_bytes` have been prefetched. If not, enqueues the command for the
  // first missing piece. When complete_piece() returns the command, call this again: a later piece may be missing.
  // `end_bytes` must be covered, see covered_bytes().
  bool ready_or_enqueue(int stream, std::uint64_t end_bytes, Command& command);

  // Drops the pieces that end at or below `offset_bytes`, up to the first that has not arrived. Call when the reader
  // has received the data.
  void release_below(int stream, std::uint64_t offset_bytes);

  // Chooses the next piece to prefetch and reserves memory for it. Returns nullopt if the stream has seen fewer than
  // `trigger_commands` sequential commands, its window is full, its reader has passed the prefetched data, or the end
  // of the drive is reached.
  std::optional<Piece> reserve_next_piece(int stream);

  // Records that a piece is in memory. Returns the commands that waited for it, linked by Command::next; nullptr if
  // there are none, or if the stream has dropped the piece meanwhile.
  Command* complete_piece(std::uint64_t token);

  // Call when the host writes or discards a range. Each stream whose data overlap the range drops all its data and
  // starts detection again. Commands that already wait receive the old data: a read that overlaps an outstanding write
  // may return the old data or the new.
  void invalidate(std::uint64_t offset_bytes, std::uint64_t size_bytes);

  static constexpr int kNoStream = -1;

 private:
  struct Slot {
    bool arrived = false;
    Command* waiters = nullptr;  // linked by Command::next
  };
  struct Stream {
    std::uint64_t next_bytes = 0;          // offset at which the reader's next command is expected
    std::int64_t sequential_commands = 0;  // 0: never assigned
    std::uint64_t begin_bytes = 0;         // data prefetched or being prefetched: [begin, end)
    std::uint64_t end_bytes = 0;
    std::uint64_t begin_piece = 0;  // the same data as piece numbers: [begin, end); never reused
    std::uint64_t end_piece = 0;
    std::uint64_t last_use = 0;  // value of use_clock_
    bool detached = false;       // follows no reader: has only pieces for which commands wait or have waited
    std::vector<Slot> slots;     // ring buffer, indexed by piece number modulo size
  };

  [[nodiscard]] static bool has_waiters(const Stream& stream);
  [[nodiscard]] Stream empty_stream() const;
  std::size_t restart(std::size_t number, std::uint64_t next_bytes);
  [[nodiscard]] std::uint64_t piece_end(std::uint64_t begin_bytes) const;

  std::int64_t trigger_commands_;
  std::uint64_t window_bytes_;
  std::uint64_t piece_bytes_;
  std::uint64_t capacity_bytes_;
  std::uint64_t use_clock_ = 0;  // counts observed commands, for least-recently-used replacement
  std::vector<Stream> streams_;  // empty if read-ahead is off; detached ones included
  Counters& counters_;
};

}  // namespace twin
