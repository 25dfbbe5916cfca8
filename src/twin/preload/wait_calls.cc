// select(), poll(), epoll and timerfd. Their timeouts and timers run in virtual time. Waiting calls check their
// descriptors again after each write by another thread.
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "preload/process.h"
#include "preload/real.h"

namespace twin {
namespace {

// The key on the timeline for which all threads wait that wait for descriptors.
const char descriptors_key = 0;

// A timer of timerfd_create(). Its descriptor is an eventfd to which this library writes the expirations when they are
// due. The kernel then reports the descriptor as ready, and reading it returns the number of expirations.
struct Timer {
  int descriptor;
  Nanoseconds due;
  Nanoseconds interval;
};

std::vector<Timer> timers;

Timer* find_timer(int descriptor) {
  for (Timer& timer : timers) {
    if (timer.descriptor == descriptor) return &timer;
  }
  return nullptr;
}

// Writes the expirations that are due by now to their descriptors. Returns the time at which the next timer is due.
Nanoseconds expire_timers() {
  Nanoseconds next = kNever;
  for (Timer& timer : timers) {
    if (timer.due <= self->now()) {
      const Nanoseconds late = self->now() - timer.due;
      const std::uint64_t expirations = timer.interval > 0 ? static_cast<std::uint64_t>(late / timer.interval) + 1 : 1;
      eventfd_write(timer.descriptor, expirations);
      timer.due = timer.interval > 0 ? timer.due + static_cast<Nanoseconds>(expirations) * timer.interval : kNever;
    }
    next = std::min(next, timer.due);
  }
  return next;
}

// Calls `look`, which must not block, until it returns a number of ready descriptors other than 0, or until `until`.
// The only thread of a program calls `block` if it has no time limit and no timer, because then only another process
// can make a descriptor ready.
template <class Look, class Block>
int wait_for(Nanoseconds until, Look look, Block block) {
  for (;;) {
    const Nanoseconds next_timer = expire_timers();
    const int found = look();
    if (found != 0 || self->now() >= until) return found;
    const Nanoseconds wake = std::min(until, next_timer);
    if (timeline().alone() && wake == kNever) return block();
    timeline().wait(*self, &descriptors_key, wake);
  }
}

// The time at which a wait ends that begins now; kNever without a time limit.
Nanoseconds end_of(int timeout_ms) { return timeout_ms < 0 ? kNever : self->now() + timeout_ms * kMillisecond; }
Nanoseconds end_of(const timespec* timeout) { return timeout == nullptr ? kNever : self->now() + to_ns(*timeout); }

int poll_until(Nanoseconds until, pollfd* descriptors, nfds_t count, const sigset_t* signals) {
  return wait_for(
      until, [&] { return TWIN_REAL(poll)(descriptors, count, 0); },
      [&] { return TWIN_REAL(ppoll)(descriptors, count, nullptr, signals); });
}

int epoll_until(Nanoseconds until, int set, epoll_event* events, int room, const sigset_t* signals) {
  return wait_for(
      until, [&] { return TWIN_REAL(epoll_wait)(set, events, room, 0); },
      [&] { return TWIN_REAL(epoll_pwait)(set, events, room, -1, signals); });
}

}  // namespace

void forget_timer(int descriptor) {
  std::erase_if(timers, [descriptor](const Timer& timer) { return timer.descriptor == descriptor; });
}

void wake_descriptor_waiters() { timeline().wake_all(*self, &descriptors_key); }

}  // namespace twin

using twin::self;

TWIN_EXPORT int select(int count, fd_set* __restrict in, fd_set* __restrict out, fd_set* __restrict odd,
                       timeval* __restrict timeout) {
  if (self == nullptr) return TWIN_REAL(select)(count, in, out, odd, timeout);
  const fd_set none{};
  const fd_set asked[3] = {in != nullptr ? *in : none, out != nullptr ? *out : none, odd != nullptr ? *odd : none};
  const auto look = [&] {
    if (in != nullptr) *in = asked[0];
    if (out != nullptr) *out = asked[1];
    if (odd != nullptr) *odd = asked[2];
    timeval zero{0, 0};
    return TWIN_REAL(select)(count, in, out, odd, &zero);
  };
  timespec limit{};
  if (timeout != nullptr) limit = {timeout->tv_sec, timeout->tv_usec * twin::kMicrosecond};
  return twin::wait_for(twin::end_of(timeout == nullptr ? nullptr : &limit), look,
                        [&] { return TWIN_REAL(select)(count, in, out, odd, nullptr); });
}

TWIN_EXPORT int pselect(int count, fd_set* __restrict in, fd_set* __restrict out, fd_set* __restrict odd,
                        const timespec* __restrict timeout, const sigset_t* __restrict signals) {
  if (self == nullptr) return TWIN_REAL(pselect)(count, in, out, odd, timeout, signals);
  timeval limit{};
  if (timeout != nullptr) limit = {timeout->tv_sec, timeout->tv_nsec / 1000};
  return select(count, in, out, odd, timeout != nullptr ? &limit : nullptr);
}

TWIN_EXPORT int poll(pollfd* descriptors, nfds_t count, int timeout_ms) {
  if (self == nullptr) return TWIN_REAL(poll)(descriptors, count, timeout_ms);
  return twin::poll_until(twin::end_of(timeout_ms), descriptors, count, nullptr);
}

TWIN_EXPORT int ppoll(pollfd* descriptors, nfds_t count, const timespec* timeout, const sigset_t* signals) {
  if (self == nullptr) return TWIN_REAL(ppoll)(descriptors, count, timeout, signals);
  return twin::poll_until(twin::end_of(timeout), descriptors, count, signals);
}

TWIN_EXPORT int epoll_wait(int set, epoll_event* events, int room, int timeout_ms) {
  if (self == nullptr) return TWIN_REAL(epoll_wait)(set, events, room, timeout_ms);
  return twin::epoll_until(twin::end_of(timeout_ms), set, events, room, nullptr);
}

TWIN_EXPORT int epoll_pwait(int set, epoll_event* events, int room, int timeout_ms, const sigset_t* signals) {
  if (self == nullptr) return TWIN_REAL(epoll_pwait)(set, events, room, timeout_ms, signals);
  return twin::epoll_until(twin::end_of(timeout_ms), set, events, room, signals);
}

TWIN_EXPORT int epoll_pwait2(int set, epoll_event* events, int room, const timespec* timeout, const sigset_t* signals) {
  if (self == nullptr) return TWIN_REAL(epoll_pwait2)(set, events, room, timeout, signals);
  return twin::epoll_until(twin::end_of(timeout), set, events, room, signals);
}

TWIN_EXPORT int timerfd_create(clockid_t clock, int flags) noexcept {
  if (self == nullptr) return TWIN_REAL(timerfd_create)(clock, flags);
  const int descriptor =
      eventfd(0, ((flags & TFD_NONBLOCK) != 0 ? EFD_NONBLOCK : 0) | ((flags & TFD_CLOEXEC) != 0 ? EFD_CLOEXEC : 0));
  if (descriptor >= 0) twin::timers.push_back({descriptor, twin::kNever, 0});
  return descriptor;
}

TWIN_EXPORT int timerfd_settime(int descriptor, int flags, const itimerspec* value, itimerspec* before) noexcept {
  twin::Timer* timer = self == nullptr ? nullptr : twin::find_timer(descriptor);
  if (timer == nullptr) return TWIN_REAL(timerfd_settime)(descriptor, flags, value, before);
  if (before != nullptr) timerfd_gettime(descriptor, before);
  eventfd_t expired;
  pollfd ready{descriptor, POLLIN, 0};
  if (TWIN_REAL(poll)(&ready, 1, 0) > 0)
    eventfd_read(descriptor, &expired);  // setting a timer discards its earlier expirations
  const twin::Nanoseconds time = twin::to_ns(value->it_value);
  timer->interval = twin::to_ns(value->it_interval);
  timer->due = time == 0 ? twin::kNever : (flags & TFD_TIMER_ABSTIME) != 0 ? time : self->now() + time;
  return 0;
}

TWIN_EXPORT int timerfd_gettime(int descriptor, itimerspec* value) noexcept {
  const twin::Timer* timer = self == nullptr ? nullptr : twin::find_timer(descriptor);
  if (timer == nullptr) return TWIN_REAL(timerfd_gettime)(descriptor, value);
  value->it_interval = twin::to_timespec(timer->interval);
  value->it_value =
      twin::to_timespec(timer->due == twin::kNever ? 0 : std::max<twin::Nanoseconds>(timer->due - self->now(), 0));
  return 0;
}
