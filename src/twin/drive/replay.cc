// Open and closed loop over a trace.
#include "drive/replay.h"

#include <algorithm>

namespace twin {

Replay::Replay(Drive& drive, std::uint32_t threads, std::uint32_t depth)
    : drive_(drive), depth_(drive.blocking_submit() ? std::min(depth, 1U) : depth), threads_(threads) {}

void Replay::submit(Nanoseconds issue_ns, Nanoseconds now, const Request& request) {
  const std::uint32_t slot = outstanding_.take({request, fed_++, issue_ns});
  submitted_ns_ = now;
  drive_.submit(now, request, slot);
}

void Replay::take(const Completion& completion, std::vector<Replayed>& done) {
  const Outstanding& slot = outstanding_[completion.ticket];
  const Nanoseconds cost = drive_.complete_cost_ns(slot.request);
  Nanoseconds back = completion.when_ns + cost;
  if (depth_ > 0) {
    Thread& thread = threads_[slot.request.job];
    thread.clock = back = std::max(thread.clock, completion.when_ns) + cost;
    --thread.outstanding;
  }
  end_ns_ = std::max(end_ns_, back);
  done.push_back({slot.index, slot.issue_ns, back - slot.issue_ns});
  outstanding_.release(static_cast<std::uint32_t>(completion.ticket));
}

// The thread that submits next: of those with less than `depth` outstanding requests, the one with the earliest clock.
Replay::Thread* Replay::ready() {
  Thread* least = nullptr;
  for (Thread& thread : threads_) {
    if (thread.outstanding < depth_ && (least == nullptr || thread.clock < least->clock)) least = &thread;
  }
  return least;
}

void Replay::feed(const TracePiece& piece, std::vector<Replayed>& done) {
  for (std::size_t i = 0; i < piece.count; ++i) {
    Request request{static_cast<Operation>(piece.operation[i]), 0, piece.offset_bytes[i], piece.size_bytes[i]};
    const Nanoseconds cost = drive_.submit_cost_ns(request);
    if (depth_ == 0) {
      const Nanoseconds arrival = piece.arrival_ns[i];
      // costs differ with size: one that arrives with a larger one in front of it still follows it
      const Nanoseconds now = std::max(submitted_ns_, arrival + cost);
      while (const auto completion = drive_.run(now)) take(*completion, done);
      submit(arrival, now, request);
      continue;
    }
    // a completion before the submission may free a thread that comes first
    for (;;) {
      Thread* thread = ready();
      const Nanoseconds now = thread == nullptr ? kNever : std::max(submitted_ns_, thread->clock + cost);
      if (drive_.next_event_ns() <= now) {
        if (const auto completion = drive_.run(now)) {
          take(*completion, done);
          continue;
        }
      }
      request.job = static_cast<std::uint32_t>(thread - threads_.data());
      const Nanoseconds issue = thread->clock;
      thread->clock = now;
      ++thread->outstanding;
      submit(issue, now, request);
      break;
    }
  }
}

void Replay::finish(std::vector<Replayed>& done) {
  while (outstanding_.in_use() > 0) {
    if (const auto completion = drive_.run(kNever)) take(*completion, done);
  }
}

}  // namespace twin
