// Handing the turn from one thread to another.
//
// A hand-over through the kernel takes some microseconds, more than everything else in a request. Therefore all threads
// that take turns share one kernel thread, the carrier. It switches from the stack and thread pointer of one thread to
// the stack and thread pointer of the next. The C library and thread-local variables identify a thread by its thread
// pointer.
//
// The kernel thread with which a thread was created is its home. The home sleeps on a small stack of its own while the
// carrier runs the thread. When the thread leaves, it continues at home, because a thread must end there: the C library
// waits for the end of the home, and the kernel frees its resources.
//
// All threads share the state that the kernel keeps for the carrier: thread number (gettid), signal mask, priority.
//
// Processors that cannot switch the thread pointer without the kernel hand over through the kernel. These are all
// processors except x86-64 with Linux 5.9 or later.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace twin {

// The state of a thread that takes turns with others. Exactly one of these threads has the turn.
class Turn {
 public:
  // Gives the first turn to the calling thread, which must be the only one.
  void start();

  // Called by a new thread at home. Returns when the thread gets the turn.
  void wait_for_first();

  // Hands the turn of the calling thread to `next`, which may not have called wait_for_first() yet. Returns when the
  // calling thread has the turn again.
  void hand_to(Turn& next);

  // Hands the turn to `next` for good. Returns at home.
  void leave_to(Turn& next);

  // Returns the number of the kernel thread on which the thread runs during its turn. May be called at any time.
  [[nodiscard]] pid_t kernel_thread() const { return runs_on_.load(std::memory_order_relaxed); }

 private:
  void arrive(Turn* left);
  void take();
  static void wait_until_parked(Turn& next);
  static void sleep_until_called(Turn* self);

  void* stack_ = nullptr;                 // where its registers are stored while another thread has the turn
  unsigned long thread_pointer_ = 0;      // the base of segment fs
  std::atomic<std::uint32_t> given_{0};   // 1 when it has been given the turn and has not taken it
  std::atomic<std::uint32_t> parked_{0};  // 1 from when its registers are first stored on stack_
  std::atomic<std::uint32_t> called_{0};  // 1 when its home is to continue it
  std::atomic<pid_t> runs_on_{0};
  pid_t home_ = 0;
  std::uint64_t signal_mask_ = 0;                // signal mask of its home
  std::unique_ptr<std::byte[]> sleeping_stack_;  // the stack on which its home sleeps
};

}  // namespace twin
