// Replays a trace on a drive, without fio: for long traces and for fitting. Takes the trace piece by piece, so that its
// length costs no memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "core/slot_pool.h"
#include "core/units.h"
#include "drive/drive.h"

namespace twin {

// A piece of a trace by columns, `count` requests long; the arrays are the caller's.
struct TracePiece {
  const std::int64_t* arrival_ns = nullptr;  // open loop alone: never decreasing
  const std::uint8_t* operation = nullptr;   // values of Operation
  const std::uint64_t* offset_bytes = nullptr;
  const std::uint64_t* size_bytes = nullptr;
  std::size_t count = 0;
};

// A completed request. `request` is its number in the whole trace, counted from 0.
struct Replayed {
  std::uint64_t request;
  Nanoseconds issue_ns;    // when it arrived (open loop) or a thread turned to it (closed loop)
  Nanoseconds latency_ns;  // from then to its return to the caller, CPU costs included
};

class Replay {
 public:
  // Closed loop: `threads` threads do what fio does with libaio. Each submits requests until `depth` are outstanding;
  // it then takes one back, for which it waits if none is complete, and submits the next. Each request goes to the
  // thread that is free first. Where submitting blocks, a thread never has more than one outstanding, and a request is
  // taken back as soon as it is complete. Open loop (`depth` 0): each request is submitted when it arrives, whatever
  // has completed by then, and waited for by a thread of its own. The drive must outlive the replay, and be used by
  // nothing else.
  Replay(Drive& drive, std::uint32_t threads, std::uint32_t depth);

  // Submits the requests of the piece; appends to `done` those that have completed by then, of this or earlier pieces.
  void feed(const TracePiece& piece, std::vector<Replayed>& done);

  // Waits for the outstanding requests.
  void finish(std::vector<Replayed>& done);

  // When the last request so far was over.
  [[nodiscard]] Nanoseconds end_ns() const { return end_ns_; }

 private:
  struct Thread {
    Nanoseconds clock = 0;             // until when it is busy
    std::uint32_t outstanding = 0;     // requests that it has not taken back
    std::deque<Completion> completed;  // those of them that are complete, while it has others to submit
  };
  // An outstanding request.
  struct Outstanding {
    Request request;
    std::uint64_t index = 0;
    Nanoseconds issue_ns = 0;
  };

  void submit(Nanoseconds issue_ns, Nanoseconds now, const Request& request);
  void complete(const Completion& completion, std::vector<Replayed>& done);
  void reap(Thread& thread, const Completion& completion, std::vector<Replayed>& done);
  void take(const Completion& completion, Nanoseconds back, std::vector<Replayed>& done);
  [[nodiscard]] Thread* ready();

  Drive& drive_;
  std::uint32_t depth_;
  std::vector<Thread> threads_;
  SlotPool<Outstanding> outstanding_;  // a request's ticket is its slot
  std::uint64_t fed_ = 0;
  Nanoseconds submitted_ns_ = 0;
  Nanoseconds end_ns_ = 0;
};

}  // namespace twin
