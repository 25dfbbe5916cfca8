// Replays a trace in an open or a closed loop.
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

// What becomes of a request that the drive has completed.
void Replay::complete(const Completion& completion, std::vector<Replayed>& done) {
  if (depth_ == 0) {
    take(completion, completion.when_ns + drive_.wakeup_cost_ns() + drive_.reap_cost_ns(), done);
    return;
  }
  Thread& thread = threads_[outstanding_[completion.ticket].request.job];
  if (thread.outstanding == depth_ && thread.completed.empty()) {
    reap(thread, completion, done);
  } else {
    thread.completed.push_back(completion);
  }
}

// The thread takes a request back; it has waited for it unless it was busy until after its completion.
void Replay::reap(Thread& thread, const Completion& completion, std::vector<Replayed>& done) {
  if (thread.clock < completion.when_ns) thread.clock = completion.when_ns + drive_.wakeup_cost_ns();
  thread.clock += drive_.reap_cost_ns();
  --thread.outstanding;
  take(completion, thread.clock, done);
}

void Replay::take(const Completion& completion, Nanoseconds back, std::vector<Replayed>& done) {
  const Outstanding& slot = outstanding_[completion.ticket];
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
      // CPU costs differ with size, but a small request that arrives behind a larger one is still submitted after it.
      const Nanoseconds now = std::max(submitted_ns_, arrival + cost);
      while (const auto completion = drive_.run(now)) complete(*completion, done);
      submit(arrival, now, request);
      continue;
    }
    // a completion before the submission may free a thread that comes first
    for (;;) {
      Thread* thread = ready();
      if (thread == nullptr) {
        if (const auto completion = drive_.run(kNever)) complete(*completion, done);
        continue;
      }
      const Nanoseconds now = std::max(submitted_ns_, thread->clock + cost);
      if (drive_.next_event_ns() <= now) {
        if (const auto completion = drive_.run(now)) {
          complete(*completion, done);
          continue;
        }
      }
      request.job = static_cast<std::uint32_t>(thread - threads_.data());
      const Nanoseconds issue = thread->clock;
      thread->clock = now;
      ++thread->outstanding;
      submit(issue, now, request);
      if (thread->outstanding == depth_ && !thread->completed.empty()) {
        const Completion first = thread->completed.front();
        thread->completed.pop_front();
        reap(*thread, first, done);
      }
      break;
    }
  }
}

void Replay::finish(std::vector<Replayed>& done) {
  for (Thread& thread : threads_) {
    for (const Completion& each : thread.completed) reap(thread, each, done);
    thread.completed.clear();
  }
  while (outstanding_.in_use() > 0) {
    const auto completion = drive_.run(kNever);
    if (!completion) continue;
    if (depth_ == 0) {
      complete(*completion, done);
    } else {
      reap(threads_[outstanding_[completion->ticket].request.job], *completion, done);
    }
  }
}

}  // namespace twin
