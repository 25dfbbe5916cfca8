// Recognises sequential streams of reads, decides what to fetch ahead of them, and knows what has arrived.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/controller_parameters.h"
#include "core/counters.h"
#include "core/request.h"

namespace twin {

// Fetches are pieces of `refill` bytes, aligned to it, that follow each other without a gap. A stream forgets its data
// once the reader has passed them, and all of them when it is given to another reader.
class ReadAhead {
 public:
  struct Piece {
    std::uint64_t begin_bytes = 0, end_bytes = 0;
    std::uint64_t token = 0;  // for arrived()
  };

  // `enabled` and the sizes of `parameters` must be usable together: throws std::invalid_argument otherwise.
  ReadAhead(const ReadAheadParameters& parameters, std::uint64_t unit_bytes, std::uint64_t capacity_bytes,
            Counters& counters);

  // A read command has come: finds or makes its stream. Returns the stream, kNoStream when reading ahead is off.
  int observe(const Request& request);

  // How many bytes from `offset_bytes` on the stream has or has asked for.
  [[nodiscard]] std::uint64_t covered_bytes(int stream, std::uint64_t offset_bytes) const;

  // Whether all that covered_bytes() promised below `end_bytes` has arrived. If not, the command waits: arrived() will
  // hand it back.
  bool ready_or_wait(int stream, std::uint64_t end_bytes, Command& command);

  // The reader has received everything below `offset_bytes`: its pieces make room for others.
  void consumed(int stream, std::uint64_t offset_bytes);

  // The next piece to fetch for the stream; false when its window is full or it is no stream yet.
  bool next_piece(int stream, Piece& piece);

  // A piece is in memory. Returns the chain (Command::next) of the commands that waited for it.
  Command* arrived(std::uint64_t token);

  // The host wrote or discarded these bytes: streams that hold them drop their data.
  void invalidate(std::uint64_t offset_bytes, std::uint64_t size_bytes);

  static constexpr int kNoStream = -1;

 private:
  struct Slot {
    bool there = false;
    Command* waiting = nullptr;
  };
  struct Stream {
    std::uint64_t next_bytes = 0;   // where its reader will go on
    std::int64_t contiguous = 0;    // commands in a row
    std::uint64_t begin_bytes = 0;  // data held or asked for: [begin, end)
    std::uint64_t end_bytes = 0;
    std::uint64_t first_piece = 0;  // number of the piece at begin_bytes
    std::uint64_t last_piece = 0;   // one past the number of the piece before end_bytes
    std::uint64_t used = 0;         // when it was last used
    std::uint32_t generation = 0;   // pieces of earlier readers are not taken for its own
    std::vector<Slot> slots;        // ring, by number of the piece
  };

  void restart(Stream& stream, std::uint64_t next_bytes);
  [[nodiscard]] std::uint64_t piece_end(std::uint64_t begin_bytes) const;

  bool enabled_;
  std::int64_t trigger_commands_;
  std::uint64_t window_bytes_;
  std::uint64_t piece_bytes_;
  std::uint64_t capacity_bytes_;
  std::uint64_t clock_ = 0;
  std::vector<Stream> streams_;
  Counters& counters_;
};

}  // namespace twin
