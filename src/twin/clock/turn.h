// How the turn goes from one thread to another.
//
// A hand-over through the kernel takes some microseconds, more than all else of a request. So the threads that take
// turns share one kernel thread, the carrier: it switches from the stack of one to that of the next, and to the next
// one's thread pointer, by which the C library and thread-local variables know a thread. The kernel thread that a
// thread was created with, its home, sleeps on a small stack of its own meanwhile. It goes on with its thread when that
// leaves, since a thread must end at home: there the C library waits for its end, and the kernel frees what is kept for
// it.
//
// What the kernel keeps for a thread is thus the carrier's: its number (gettid), its signal mask, its priority.
//
// Processors that cannot switch the thread pointer without the kernel (all but x86-64, with Linux before 5.9 also
// these) hand over through the kernel.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace twin {

// A thread's place among those that take turns. Exactly one of them has the turn.
class Turn {
 public:
  // For the calling thread, which is the only one and has the turn.
  void start();

  // Called by a new thread at home; returns when it is given the turn.
  void wait_for_first();

  // The calling thread, whose place this is, hands the turn to `next`, which may not have called wait_for_first() yet.
  // Returns when it has the turn again.
  void hand_to(Turn& next);

  // The same, but the calling thread never has the turn again; it returns at home.
  void leave_to(Turn& next);

  // The number of the kernel thread on which it runs while it has the turn. May be called at any time.
  [[nodiscard]] pid_t kernel_thread() const { return runs_on_.load(std::memory_order_relaxed); }

 private:
  void arrive(Turn* left);
  void take();
  static void wait_until_parked(Turn& next);
  static void sleep_until_called(Turn* self);

  void* stack_ = nullptr;                 // where its registers lie while another one has the turn
  unsigned long thread_pointer_ = 0;      // the base of segment fs
  std::atomic<std::uint32_t> given_{0};   // 1 once it has been given the turn and has not taken it
  std::atomic<std::uint32_t> parked_{0};  // 1 once its registers lie in stack_ for the first time
  std::atomic<std::uint32_t> called_{0};  // 1 once its home is to go on with it
  std::atomic<pid_t> runs_on_{0};
  pid_t home_ = 0;
  std::uint64_t signal_mask_ = 0;                // of its home
  std::unique_ptr<std::byte[]> sleeping_stack_;  // the stack on which its home sleeps
};

}  // namespace twin
