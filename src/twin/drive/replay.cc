// Replay of a trace with its dependencies, or with a number of outstanding requests.
#include "drive/replay.h"

#include <algorithm>
#include <cassert>

namespace twin {

Replay::Replay(Drive& drive, std::uint32_t threads, std::uint32_t depth)
    : drive_(drive), depth_(drive.blocking_submit() ? std::min(depth, 1U) : depth), threads_(threads) {}

void Replay::submit(Nanoseconds issue_ns, Nanoseconds now, const Request& request) {
  const std::uint32_t slot = outstanding_.take({request, submitted_++, issue_ns});
  last_submit_ns_ = now;
  drive_.submit(now, request, slot);
}

// Handles a completion of the drive.
void Replay::complete(const Completion& completion, std::vector<Replayed>& done) {
  if (depth_ == 0) {
    const Nanoseconds returned = completion.when_ns + drive_.wakeup_cost_ns() + drive_.reap_cost_ns();
    if (counts_returns_) returns_.push_back(returned);
    finish_request(completion, returned, done);
    return;
  }
  Thread& thread = threads_[outstanding_[completion.ticket].request.job];
  if (thread.outstanding == depth_ && thread.completed.empty()) {
    reap(thread, completion, done);
  } else {
    thread.completed.push_back(completion);
  }
}

// Reaps a request. If the thread was free before the completion, it has waited.
void Replay::reap(Thread& thread, const Completion& completion, std::vector<Replayed>& done) {
  if (thread.clock < completion.when_ns) thread.clock = completion.when_ns + drive_.wakeup_cost_ns();
  thread.clock += drive_.reap_cost_ns();
  --thread.outstanding;
  finish_request(completion, thread.clock, done);
}

void Replay::finish_request(const Completion& completion, Nanoseconds returned, std::vector<Replayed>& done) {
  const Outstanding& slot = outstanding_[completion.ticket];
  end_ns_ = std::max(end_ns_, returned);
  done.push_back({slot.number, slot.issue_ns, returned - slot.issue_ns});
  outstanding_.release(static_cast<std::uint32_t>(completion.ticket));
}

// Waits until `count` requests have returned. Returns the time at which the last of them did; 0 if `count` is 0.
Nanoseconds Replay::wait_for(std::uint64_t count, std::vector<Replayed>& done) {
  while (first_return_ + returns_.size() <= count) {
    const auto completion = drive_.run(kNever);
    assert(completion && "the request waits for requests that were submitted before");
    complete(*completion, done);
  }
  for (; first_return_ < count; ++first_return_) returns_.pop_front();
  return returns_.front();
}

// Returns the thread that submits next: the one that is free first among those with less than `depth` outstanding
// requests; nullptr if there is none.
Replay::Thread* Replay::next_to_submit() {
  Thread* least = nullptr;
  for (Thread& thread : threads_) {
    if (thread.outstanding < depth_ && (least == nullptr || thread.clock < least->clock)) least = &thread;
  }
  return least;
}

void Replay::feed(const TracePiece& piece, std::vector<Replayed>& done) {
  counts_returns_ = piece.after != nullptr;
  for (std::size_t i = 0; i < piece.count; ++i) {
    Request request{static_cast<Operation>(piece.operation[i]), 0, piece.offset_bytes[i], piece.size_bytes[i]};
    const Nanoseconds cost = drive_.submit_cost_ns(request);
    if (depth_ == 0) {
      const Nanoseconds from = counts_returns_ ? wait_for(piece.after[i], done) : 0;
      last_issue_ns_ = std::max(last_issue_ns_, from + piece.delay_ns[i]);
      // a small request costs less CPU time than a large one, but is never submitted before an earlier request
      const Nanoseconds now = std::max(last_submit_ns_, last_issue_ns_ + cost);
      while (const auto completion = drive_.run(now)) complete(*completion, done);
      submit(last_issue_ns_, now, request);
      continue;
    }
    // a completion before the submission may free another thread earlier
    for (;;) {
      Thread* thread = next_to_submit();
      const Nanoseconds now = thread == nullptr ? kNever : std::max(last_submit_ns_, thread->clock + cost);
      if (const auto completion = drive_.run(now)) {
        complete(*completion, done);
        continue;
      }
      assert(thread != nullptr && "a drive with outstanding requests completes one");
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
