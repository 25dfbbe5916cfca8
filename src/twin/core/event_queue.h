// The event queue: the only place in the model where the order of events is decided.
//
// Events of the same time happen in the order in which they were scheduled, so a run depends on its input alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/units.h"

namespace twin {

// Schedules events and is called when their time has come. `what` identifies the event; only the handler interprets it.
class EventHandler {
 public:
  virtual void on_event(Nanoseconds now, std::uint64_t what) = 0;

 protected:
  ~EventHandler() = default;
};

class EventQueue {
 public:
  EventQueue() { heap_.reserve(4096); }

  // The handler must outlive the event. `when` must not be earlier than the event that is being handled.
  void schedule(Nanoseconds when, EventHandler& handler, std::uint64_t what);

  // Returns the time of the earliest event; kNever if there is none.
  [[nodiscard]] Nanoseconds next() const { return heap_.empty() ? kNever : heap_.front().when; }

  // Removes the earliest event and runs its handler. The queue must not be empty.
  void run_next();

 private:
  struct Event {
    Nanoseconds when;
    std::uint64_t order;
    EventHandler* handler;
    std::uint64_t what;

    [[nodiscard]] bool before(const Event& other) const {
      return when != other.when ? when < other.when : order < other.order;
    }
  };

  std::vector<Event> heap_;  // binary heap, earliest event first
  std::uint64_t scheduled_ = 0;
};

inline void EventQueue::schedule(Nanoseconds when, EventHandler& handler, std::uint64_t what) {
  const Event event{when, scheduled_++, &handler, what};
  std::size_t hole = heap_.size();
  heap_.push_back(event);
  while (hole > 0) {
    const std::size_t parent = (hole - 1) / 2;
    if (!event.before(heap_[parent])) break;
    heap_[hole] = heap_[parent];
    hole = parent;
  }
  heap_[hole] = event;
}

inline void EventQueue::run_next() {
  const Event first = heap_.front();
  const Event last = heap_.back();
  heap_.pop_back();
  const std::size_t size = heap_.size();
  if (size > 0) {
    std::size_t hole = 0;
    for (;;) {
      std::size_t child = 2 * hole + 1;
      if (child >= size) break;
      if (child + 1 < size && heap_[child + 1].before(heap_[child])) ++child;
      if (!heap_[child].before(last)) break;
      heap_[hole] = heap_[child];
      hole = child;
    }
    heap_[hole] = last;
  }
  first.handler->on_event(first.when, first.what);
}

}  // namespace twin
