// The virtual clock: threads take turns in the order of virtual time, exactly one of them running at a time.
//
// Each thread of the program is a virtual thread: it has a clock of its own. The running thread gives up its turn when
// it waits, for a time or to be woken, and when its clock passes the moment at which another thread or the event source
// (a drive) is due. The next to run is the thread with the earliest time; among equals, the one with the smallest
// number. Events that are due at that time are handled first. No thread therefore acts at a time that another has
// already passed, and the order of all actions depends on the program alone, whatever the machine does.
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

// A source of events in virtual time besides the threads: the drive.
class EventSource {
 public:
  // When its next event is due; kNever when there is none.
  [[nodiscard]] virtual Nanoseconds next_event() const = 0;
  // Handles its events up to and including `until`, at least one of them. It may call Timeline::wake_one_at().
  virtual void advance(Nanoseconds until) = 0;

 protected:
  ~EventSource() = default;
};

// The readings of the clock by one thread: all, and those in a row, between which it did nothing that takes time.
struct ClockReadings {
  std::uint64_t all = 0;
  std::uint64_t in_row = 0;
  Nanoseconds first_ns = 0;  // when those in a row began
  Nanoseconds last_ns = 0;   // when the last one was over
};

class VirtualThread {
 public:
  [[nodiscard]] Nanoseconds now() const { return now_; }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  // The number of the kernel thread on which it runs while it has the turn. A watchdog may call this at any time.
  [[nodiscard]] pid_t kernel_thread() const { return turn_.kernel_thread(); }
  // For a process that was just forked, in which this is the only thread: it runs on another kernel thread now.
  void has_forked() { turn_.start(); }

  Nanoseconds cpu_ns = 0;  // processor time that it was charged
  ClockReadings clock_readings;
  std::uint64_t waits = 0;  // how often it gave up its turn to wait
  pthread_t thread{};       // set by whoever made it
  int job = -1;             // its number among the threads that use the drive; -1 for all others

 private:
  friend class Timeline;
  Nanoseconds now_ = 0;
  Nanoseconds due_ = kNever;         // while it waits: when it goes on unless woken before
  const void* key_ = nullptr;        // while it waits to be woken: what it waits for
  std::uint64_t waiting_since_ = 0;  // orders the threads that wait for the same key
  bool woken_ = false;
  std::uint32_t number_ = 0;
  bool left_ = false;
  Turn turn_;
};

// Only the running thread may call these functions, except begin() and those that say so.
class Timeline {
 public:
  // `stuck` is called when every virtual thread waits to be woken and none can be; it must not return.
  Timeline(EventSource& source, void (*stuck)());

  // Adds the calling thread as the first virtual thread. It is running, and its clock shows `now`.
  VirtualThread& start(Nanoseconds now);

  // Adds a virtual thread that the running one creates. It is due at the time of the running one.
  VirtualThread& add();

  // Called by the new thread itself: returns when its turn comes.
  void begin(VirtualThread& self);

  // The running thread ends. It gives up its turn and never runs again.
  void leave(VirtualThread& self);

  // Call in the child after fork(): the calling thread is the only one left.
  void forget_others(VirtualThread& self);

  // Moves the clock of the running thread forward. Whatever is due before its new time happens before this returns.
  void advance(VirtualThread& self, Nanoseconds by) {
    self.now_ += by;
    if (self.now_ >= next_due_) give_way(self);
  }

  // Waits until the time has come, or another virtual thread or the event source wakes whoever waits for `key`. Returns
  // whether it was woken.
  bool wait(VirtualThread& self, const void* key, Nanoseconds until);

  // Wakes the thread that has waited longest for `key`; it continues at the time of `self`. Returns false if none
  // waits.
  bool wake_one(const VirtualThread& self, const void* key) { return wake_one_at(key, self.now_); }
  void wake_all(const VirtualThread& self, const void* key);

  // The same, for use within EventSource::advance(). The woken thread continues at `when`.
  bool wake_one_at(const void* key, Nanoseconds when);

  // Call after submitting work to the drive: recomputes when its next event is due.
  void drive_changed(const VirtualThread& self) { find_next_due(self); }

  // Removes a virtual thread whose real thread could not be created.
  void remove(VirtualThread& never_begun);

  // Whether the thread is one of the virtual threads that have not left.
  [[nodiscard]] bool has(pthread_t thread) const;

  // The virtual threads that have not left, by index; nullptr beyond the last.
  [[nodiscard]] const VirtualThread* virtual_thread(std::size_t index) const {
    return index < threads_.size() ? threads_[index] : nullptr;
  }

  [[nodiscard]] bool alone() const { return threads_.size() == 1; }

  // The number of turns so far, the running thread, and the number of threads that have not left. A watchdog may call
  // these at any time.
  [[nodiscard]] std::uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }
  [[nodiscard]] const VirtualThread* running() const { return running_.load(std::memory_order_acquire); }
  [[nodiscard]] std::size_t size() const { return size_.load(std::memory_order_relaxed); }

 private:
  void give_way(VirtualThread& self);
  void hand_over(VirtualThread& self);
  void find_next_due(const VirtualThread& self);
  [[nodiscard]] VirtualThread* earliest() const;

  EventSource& source_;
  void (*stuck_)();
  std::vector<std::unique_ptr<VirtualThread>> all_;  // never shrinks, so that references stay good
  std::vector<VirtualThread*> threads_;              // those that have not left, by number
  Nanoseconds next_due_ = kNever;                    // when another thread or the event source is due next
  std::uint64_t order_ = 0;
  std::atomic<std::uint64_t> turns_{0};
  std::atomic<std::size_t> size_{0};  // of threads_
  std::atomic<const VirtualThread*> running_{nullptr};
};

}  // namespace twin
