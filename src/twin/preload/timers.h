// Timers of the program in virtual time: alarm(), setitimer(), timer_create() and timerfd_create(). An expiration is an
// event on the timeline, as a completion of the drive is.
#pragma once

#include <atomic>

#include "core/units.h"

namespace twin {

extern std::atomic<Nanoseconds> timer_due;

// Returns when the next timer expires; kNever if no timer is armed. A watchdog may call this at any time.
inline Nanoseconds next_timer() { return timer_due.load(std::memory_order_relaxed); }

// Expires the timers that are due first. Call from within EventSource::advance().
void expire_timers();

// Call in a child after fork(): a child does not inherit timers that send signals.
void forget_signal_timers();

// Call when a descriptor, of a timer or not, is copied or closed. A timer is removed with its last descriptor.
void copy_timer(int from, int to);
void forget_timer(int descriptor);

// The key on the timeline of threads that wait for a signal with sigwait() and similar calls.
extern const char signals_key;

}  // namespace twin
