// The virtual clock: threads take turns in the order of virtual time, exactly one of them running at a time.
//
// Each thread of the program is a participant with a clock of its own. The running one gives its turn away when it
// waits (for a time, or to be woken) and when its clock passes the moment at which another participant, or the world,
// is due. The next is always the one with the least (time, number); things of the world that are due at that time come
// first. So no participant ever acts at a time that another has already passed, whatever the machine does, and the
// order of all that happens depends on nothing but the program.
//
// Knows nothing of what the threads do, nor of what the world is.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/units.h"

namespace twin {

// What goes on beside the threads: a drive at work.
class World {
 public:
  // When its next event is due; kNever when nothing is under way.
  [[nodiscard]] virtual Nanoseconds next_event() const = 0;
  // Lets its events happen up to and including `until`, at least one; may call Timeline::wake_one_at().
  virtual void advance(Nanoseconds until) = 0;

 protected:
  ~World() = default;
};

class Participant {
 public:
  [[nodiscard]] Nanoseconds now() const { return now_; }
  [[nodiscard]] std::uint32_t number() const { return number_; }

  Nanoseconds cpu_ns = 0;  // processor time that it was charged
  std::uint64_t clock_readings = 0;
  std::uint64_t clock_readings_before = 0;  // when its requests were last counted
  std::uint64_t requests = 0;
  std::uint64_t waits = 0;              // times that it gave its turn away to wait
  pthread_t thread{};                   // set by whoever made it
  std::atomic<pid_t> kernel_thread{0};  // its number in the kernel, set by itself; the watchdog reads it at any time
  int job = -1;                         // a number for those that use the drive

 private:
  friend class Timeline;
  Nanoseconds now_ = 0;
  Nanoseconds due_ = kNever;         // while it waits: when it goes on unless woken before
  const void* key_ = nullptr;        // while it waits to be woken: for what
  std::uint64_t waiting_since_ = 0;  // orders those who wait for the same
  bool woken_ = false;
  std::uint32_t number_ = 0;
  std::atomic<std::uint32_t> turn_{0};
};

// All functions are called by the running participant alone, but for begin().
class Timeline {
 public:
  // `stuck` is called when every participant waits to be woken and none can be; it must not return.
  Timeline(World& world, void (*stuck)());

  // Adds the thread that calls as the first participant, running, its clock at `now`.
  Participant& start(Nanoseconds now);

  // Adds a participant that the running one makes; it is due at the running one's time.
  Participant& add();

  // Called by the new thread itself: returns when its turn comes.
  void begin(Participant& self);

  // The running participant ends; never runs again. Gives the turn away.
  void leave(Participant& self);

  // After fork(): the calling thread is the only one left.
  void forget_others(Participant& self);

  // Moves the clock of the running participant, and lets all happen that is due before it goes on.
  void advance(Participant& self, Nanoseconds by) {
    self.now_ += by;
    if (self.now_ >= next_due_) give_way(self);
  }

  // Waits until the time has come, or another participant or the world wakes whoever waits for `key`. Returns whether
  // it was woken.
  bool wait(Participant& self, const void* key, Nanoseconds until);

  // Wakes the one that has waited longest for `key`; it goes on at the time of `self`. False when nobody waits for it.
  bool wake_one(const Participant& self, const void* key) { return wake_one_at(key, self.now_); }
  void wake_all(const Participant& self, const void* key);

  // The same from within World::advance(): it goes on at `when`.
  bool wake_one_at(const void* key, Nanoseconds when);

  // The world has got something to do that it had not: by the running participant, after it gave it.
  void world_changed(const Participant& self) { find_next_due(self); }

  // A participant whose thread could not be made.
  void remove(Participant& never_begun);

  // Whether the thread is one of the participants that have not left.
  [[nodiscard]] bool has(pthread_t thread) const;

  // The participant in the given place of those that have not left, nullptr beyond the last.
  [[nodiscard]] const Participant* participant(std::size_t place) const {
    return place < participants_.size() ? participants_[place] : nullptr;
  }

  [[nodiscard]] bool alone() const { return participants_.size() == 1; }

  // How many turns there have been, who is running, and how many have not left. A watchdog may call these at any time.
  [[nodiscard]] std::uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }
  [[nodiscard]] const Participant* running() const { return running_.load(std::memory_order_acquire); }
  [[nodiscard]] std::size_t size() const { return size_.load(std::memory_order_relaxed); }

 private:
  void give_way(Participant& self);
  void hand_over(Participant* self);
  void find_next_due(const Participant& self);
  [[nodiscard]] Participant* earliest() const;

  World& world_;
  void (*stuck_)();
  std::vector<std::unique_ptr<Participant>> all_;  // never shrinks, so that references stay good
  std::vector<Participant*> participants_;         // those that have not left, by number
  Nanoseconds next_due_ = kNever;                  // of all others and the world, while one runs
  std::uint64_t order_ = 0;
  std::atomic<std::uint64_t> turns_{0};
  std::atomic<std::size_t> size_{0};  // of participants_
  std::atomic<const Participant*> running_{nullptr};
};

}  // namespace twin
