// Replay of a trace on a drive without fio, for long traces and for fitting. The trace is passed in pieces, so its
// length needs no memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "core/slot_pool.h"
#include "core/units.h"
#include "drive/drive.h"

namespace twin {

// A piece of a trace: columns with `count` elements, owned by the caller.
struct TracePiece {
  const std::int64_t* delay_ns = nullptr;   // without a depth only
  const std::uint64_t* after = nullptr;     // without a depth only: must not decrease; nullptr (for all pieces): zeros
  const std::uint8_t* operation = nullptr;  // values of Operation
  const std::uint64_t* offset_bytes = nullptr;
  const std::uint64_t* size_bytes = nullptr;
  std::size_t count = 0;
};

// A completed request.
struct Replayed {
  std::uint64_t request;   // its number in the trace, from 0
  Nanoseconds issue_ns;    // when it was issued: the time from which its thread was busy with it
  Nanoseconds latency_ns;  // from issue_ns to its return to the caller, including CPU costs
};

class Replay {
 public:
  // With a depth: `threads` threads do what fio does with libaio. A thread submits requests until `depth` are
  // outstanding; then it reaps one, waiting if none is complete, and submits the next. Each request goes to the thread
  // that is free first. If submitting blocks, a thread has at most one outstanding request, and reaps it as soon as it
  // is complete.
  //
  // Without a depth (`depth` 0): a request is issued `delay_ns` after `after` requests have returned to the caller, but
  // never before an earlier request. Its own thread waits for it. If `after` is 0, `delay_ns` is its time of arrival.
  //
  // The drive must outlive the replay, and must not be used otherwise.
  Replay(Drive& drive, std::uint32_t threads, std::uint32_t depth);

  // Submits the requests of a piece. Appends to `done` the requests of this and earlier pieces that are complete by
  // then.
  void feed(const TracePiece& piece, std::vector<Replayed>& done);

  // Waits for the outstanding requests, and appends them to `done`.
  void finish(std::vector<Replayed>& done);

  // Returns the time at which the last completed request returned to the caller.
  [[nodiscard]] Nanoseconds end_ns() const { return end_ns_; }

 private:
  struct Thread {
    Nanoseconds clock = 0;             // when it is free
    std::uint32_t outstanding = 0;     // requests that it has not reaped
    std::deque<Completion> completed;  // complete ones among them
  };
  struct Outstanding {
    Request request;
    std::uint64_t number = 0;  // in the trace
    Nanoseconds issue_ns = 0;
  };

  void submit(Nanoseconds issue_ns, Nanoseconds now, const Request& request);
  void complete(const Completion& completion, std::vector<Replayed>& done);
  void reap(Thread& thread, const Completion& completion, std::vector<Replayed>& done);
  void finish_request(const Completion& completion, Nanoseconds returned, std::vector<Replayed>& done);
  [[nodiscard]] Nanoseconds wait_for(std::uint64_t count, std::vector<Replayed>& done);
  [[nodiscard]] Thread* next_to_submit();

  Drive& drive_;
  std::uint32_t depth_;
  std::vector<Thread> threads_;
  SlotPool<Outstanding> outstanding_;   // the slot is the request's ticket
  bool counts_returns_ = false;         // whether requests wait for others to return
  std::deque<Nanoseconds> returns_{0};  // when requests returned, from number `first_return_` on;
  std::uint64_t first_return_ = 0;      // number 0 is the start, at time 0
  Nanoseconds last_issue_ns_ = 0;
  std::uint64_t submitted_ = 0;  // number of requests
  Nanoseconds last_submit_ns_ = 0;
  Nanoseconds end_ns_ = 0;
};

}  // namespace twin
