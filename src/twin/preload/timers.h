// Timers of the program in virtual time: alarm(), setitimer(), timer_create() and timerfd_create(). Their expirations
// are events on the timeline, like those of the drive.
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

// Whether a descriptor is of timerfd_create(). Takes any number.
bool is_timer(int descriptor);

// Waits as read() does on a descriptor of a timer, until the timer has expired. Returns -1 with errno set to EINTR if a
// signal ends the wait. Returns at once if the descriptor does not block.
int wait_for_timer(int descriptor);

// Call when a descriptor is closed. If it belongs to a timer, the timer is removed.
void forget_timer(int descriptor);

// The key on the timeline of threads that wait for a signal with sigwait() and similar calls.
extern const char signals_key;

}  // namespace twin
