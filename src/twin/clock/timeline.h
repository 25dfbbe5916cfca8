// The virtual clock: threads take turns in the order of virtual time, exactly one of them running at a time.
//
// Each thread of the program is a virtual thread and has its own clock. The running thread gives up its turn when it
// waits (for a time, or to be woken), and when its clock passes the time at which another thread or the event source (a
// drive) is due. The next thread to run is the one with the earliest time; among equals, the one with the smallest
// number. Events that are due at that time are handled first. Therefore no thread acts at a time that another thread
// has already passed, and the order of all actions depends only on the program, not on the speed of the machine.
//
// The timeline does not know what the threads do, nor what the event source is.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "clock/turn.h"
#include "core/units.h"

namespace twin {

// A source of events in virtual time other than the threads: the drive.
class EventSource {
 public:
  // Returns when the next event is due; kNever if there is none.
  [[nodiscard]] virtual Nanoseconds next_event() const = 0;
  // Handles events up to and including `until`, at least one of them. May call Timeline::wake_one_at().
  virtual void advance(Nanoseconds until) = 0;

 protected:
  ~EventSource() = default;
};

// The readings of the clock by one thread: all of them, and those in a row, between which the thread did nothing that
// takes time.
struct ClockReadings {
  std::uint64_t all = 0;
  std::uint64_t in_row = 0;
  std::uint64_t processor_in_row = 0;  // of the clocks of processor time
  Nanoseconds first_ns = 0;            // when the readings in a row began
  Nanoseconds last_ns = 0;             // end of the last reading
};

class VirtualThread {
 public:
  [[nodiscard]] Nanoseconds now() const { return now_; }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  // Returns the number of the kernel thread on which the thread runs during its turn. A watchdog may call this at any
  // time.
  [[nodiscard]] pid_t kernel_thread() const { return turn_.kernel_thread(); }
  // Call after fork() in a child in which this is the only thread: it now runs on another kernel thread.
  void has_forked() { turn_.start(); }

  Nanoseconds cpu_ns = 0;  // processor time charged to the thread
  ClockReadings clock_readings;
  std::uint64_t waits = 0;     // number of calls of Timeline::wait()
  bool interruptible = false;  // whether a signal ends its wait
  pthread_t thread{};          // set by the creator of the thread
  int job = -1;                // number among the threads that use the drive; -1: does not use the drive

 private:
  friend class Timeline;
  Nanoseconds now_ = 0;
  Nanoseconds due_ = kNever;         // while waiting: when it continues unless it is woken before
  const void* key_ = nullptr;        // while waiting to be woken: what it waits for
  std::uint64_t waiting_since_ = 0;  // order of the threads that wait for the same key
  bool woken_ = false;
  std::uint32_t number_ = 0;
  bool left_ = false;
  Turn turn_;
};

// Only the running thread may call these functions, except begin() and functions for which a comment states otherwise.
class Timeline {
 public:
  // `on_deadlock` is called when all virtual threads wait to be woken and no event is left. It must not return.
  Timeline(EventSource& source, void (*on_deadlock)());

  // Adds the calling thread as the first virtual thread. It is the running thread, and its clock is at `now`.
  VirtualThread& start(Nanoseconds now);

  // Adds a virtual thread that the running thread creates. It is due at the time of the running thread.
  VirtualThread& add();

  // Called by the new thread itself. Returns when its turn comes.
  void begin(VirtualThread& self);

  // Gives up the turn of the running thread, which ends and never runs again.
  void leave(VirtualThread& self);

  // Call in the child after fork(), where only the calling thread is left.
  void forget_others(VirtualThread& self);

  // Moves the clock of the running thread forward. Everything that is due before the new time happens before this
  // returns.
  void advance(VirtualThread& self, Nanoseconds by) {
    self.now_ += by;
    if (self.now_ >= next_due_) give_way(self);
  }

  // Waits until the time `until`, or until another virtual thread or the event source wakes this thread through `key`.
  // Returns whether it was woken.
  bool wait(VirtualThread& self, const void* key, Nanoseconds until);

  // Wakes the thread that has waited longest for `key`. The woken thread continues at the time of `self`. Returns false
  // if no thread waits.
  bool wake_one(const VirtualThread& self, const void* key) { return wake_one_at(key, self.now_); }
  void wake_all(const VirtualThread& self, const void* key);

  // Wakes the thread that has waited longest for `key`, from within EventSource::advance(). The woken thread continues
  // at `when`. Returns false if no thread waits.
  bool wake_one_at(const void* key, Nanoseconds when);

  // Ends the wait of the first thread at `when`, from within EventSource::advance(), if the thread is interruptible.
  void interrupt_first(Nanoseconds when);

  // Call after the event source has got a new event: recomputes when its next event is due.
  void source_changed(const VirtualThread& self) { find_next_due(self); }

  // Removes a virtual thread whose real thread could not be created.
  void remove(VirtualThread& never_begun);

  // Returns whether a thread is one of the virtual threads that have not left.
  [[nodiscard]] bool has(pthread_t thread) const;

  [[nodiscard]] bool alone() const { return threads_.size() == 1; }

  // Returns whether a thread is the oldest that has not left: the main thread, unless it has ended.
  [[nodiscard]] bool is_first(const VirtualThread& thread) const { return threads_.front() == &thread; }

  // Calls visit(thread) for every thread since the beginning, including threads that have left.
  template <class Visit>
  void for_all(Visit&& visit) const {
    for (const auto& each : all_) visit(*each);
  }

  // The number of turns so far, the running thread, and the number of threads that have not left. A watchdog may call
  // these functions at any time.
  [[nodiscard]] std::uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }
  [[nodiscard]] const VirtualThread* running() const { return running_.load(std::memory_order_acquire); }
  [[nodiscard]] std::size_t size() const { return size_.load(std::memory_order_relaxed); }

 private:
  void erase(VirtualThread& thread);
  void give_way(VirtualThread& self);
  void hand_over(VirtualThread& self);
  void find_next_due(const VirtualThread& self);
  [[nodiscard]] VirtualThread* earliest() const;

  EventSource& source_;
  void (*on_deadlock_)();
  std::vector<std::unique_ptr<VirtualThread>> all_;  // never shrinks, so that references stay valid
  std::vector<VirtualThread*> threads_;              // threads that have not left, in order of their numbers
  Nanoseconds next_due_ = kNever;                    // when another thread or the event source is due next
  std::uint64_t order_ = 0;
  std::atomic<std::uint64_t> turns_{0};
  std::atomic<std::size_t> size_{0};  // size of threads_, for the watchdog
  std::atomic<const VirtualThread*> running_{nullptr};
};

}  // namespace twin
