// Turns in the order of virtual time.
#include "clock/timeline.h"

#include <algorithm>
#include <cstdlib>

namespace twin {

Timeline::Timeline(EventSource& source, void (*on_deadlock)()) : source_(source), on_deadlock_(on_deadlock) {}

VirtualThread& Timeline::start(Nanoseconds now) {
  VirtualThread& self = add();
  self.now_ = now;
  self.turn_.start();
  running_.store(&self, std::memory_order_release);
  return self;
}

VirtualThread& Timeline::add() {
  all_.push_back(std::make_unique<VirtualThread>());
  VirtualThread& added = *all_.back();
  added.number_ = static_cast<std::uint32_t>(all_.size() - 1);
  threads_.push_back(&added);
  size_.store(threads_.size(), std::memory_order_relaxed);
  if (const VirtualThread* maker = running_.load(std::memory_order_relaxed)) {
    added.now_ = added.due_ = maker->now_;
    find_next_due(*maker);
  }
  return added;
}

void Timeline::begin(VirtualThread& self) { self.turn_.wait_for_first(); }

void Timeline::erase(VirtualThread& thread) {
  threads_.erase(std::find(threads_.begin(), threads_.end(), &thread));
  size_.store(threads_.size(), std::memory_order_relaxed);
}

void Timeline::leave(VirtualThread& self) {
  self.left_ = true;
  erase(self);
  if (!threads_.empty()) hand_over(self);
}

void Timeline::remove(VirtualThread& never_begun) {
  erase(never_begun);
  find_next_due(*running_.load(std::memory_order_relaxed));
}

bool Timeline::has(pthread_t thread) const {
  return std::any_of(threads_.begin(), threads_.end(),
                     [thread](const VirtualThread* each) { return pthread_equal(each->thread, thread) != 0; });
}

void Timeline::forget_others(VirtualThread& self) {
  threads_.assign(1, &self);
  size_.store(1, std::memory_order_relaxed);
  self.turn_.start();
  find_next_due(self);
}

VirtualThread* Timeline::earliest() const {
  const auto due = [](const VirtualThread* each) { return each->due_; };
  const auto first = std::ranges::min_element(threads_, {}, due);
  return first == threads_.end() || due(*first) == kNever ? nullptr : *first;
}

void Timeline::find_next_due(const VirtualThread& self) {
  Nanoseconds due = source_.next_event();
  for (const VirtualThread* each : threads_) {
    if (each != &self) due = std::min(due, each->due_);
  }
  next_due_ = due;
}

// Handles the events that are due, and hands the turn to the thread that is due first. Returns when it is the turn of
// `self` again, or at once if `self` has left.
void Timeline::hand_over(VirtualThread& self) {
  VirtualThread* next = nullptr;
  for (;;) {
    next = earliest();
    const Nanoseconds limit = next == nullptr ? kNever : next->due_;
    const Nanoseconds event = source_.next_event();
    if (event == kNever || event > limit) break;
    source_.advance(limit);  // a completion may wake a thread that is due earlier than `next`
  }
  if (next == nullptr) {
    on_deadlock_();
    std::abort();  // on_deadlock_() must not return
  }
  turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  next->now_ = std::max(next->now_, next->due_);
  next->due_ = kNever;
  next->key_ = nullptr;
  find_next_due(*next);
  if (next == &self) return;
  running_.store(next, std::memory_order_release);
  if (self.left_) {
    self.turn_.leave_to(next->turn_);
  } else {
    self.turn_.hand_to(next->turn_);
  }
}

void Timeline::give_way(VirtualThread& self) {
  self.due_ = self.now_;
  hand_over(self);
}

bool Timeline::wait(VirtualThread& self, const void* key, Nanoseconds until) {
  self.key_ = key;
  self.due_ = until;
  self.waiting_since_ = order_++;
  self.woken_ = false;
  ++self.waits;
  hand_over(self);
  return self.woken_;
}

bool Timeline::wake_one_at(const void* key, Nanoseconds when) {
  VirtualThread* first = nullptr;
  for (VirtualThread* each : threads_) {
    if (each->key_ == key && (first == nullptr || each->waiting_since_ < first->waiting_since_)) first = each;
  }
  if (first == nullptr) return false;
  first->due_ = std::max(first->now_, when);
  first->key_ = nullptr;
  first->woken_ = true;
  next_due_ = std::min(next_due_, first->due_);
  return true;
}

void Timeline::interrupt_first(Nanoseconds when) {
  VirtualThread& first = *threads_.front();
  if (!first.interruptible) return;
  first.due_ = std::min(first.due_, std::max(first.now_, when));
  next_due_ = std::min(next_due_, first.due_);
}

void Timeline::wake_all(const VirtualThread& self, const void* key) {
  while (wake_one_at(key, self.now_)) {
  }
}

}  // namespace twin
