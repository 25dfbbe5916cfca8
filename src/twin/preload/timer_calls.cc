// Timers that send signals, and timers with a descriptor.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <list>
#include <vector>

#include "preload/process.h"
#include "preload/real.h"
#include "preload/timers.h"

namespace twin {

const char signals_key = 0;
std::atomic<Nanoseconds> timer_due{kNever};

namespace {

struct Timer {
  Nanoseconds due = kNever;
  Nanoseconds interval = 0;
  clockid_t clock = CLOCK_MONOTONIC;
  // Of timerfd_create(): an eventfd and its copies. This library writes the expirations to it. The kernel then reports
  // the descriptor as ready, and reading it returns the number of expirations.
  std::vector<int> descriptors;
  int signal = 0;  // 0: none
  int signal_code = SI_TIMER;
  sigval value{};
  std::uint64_t unsent = 0;  // expirations since the last signal
  int overrun = 0;           // expirations without a signal of their own before the last signal
};

// The first timer belongs to alarm() and setitimer(). The list is never destroyed, because threads may run until the
// process ends.
std::list<Timer>& timers() {
  static auto* const all = [] {
    auto* const list = new std::list<Timer>(1);
    list->front().signal = SIGALRM;
    list->front().signal_code = SI_KERNEL;
    return list;
  }();
  return *all;
}

void find_next_due() {
  Nanoseconds due = kNever;
  for (const Timer& timer : timers()) due = std::min(due, timer.due);
  timer_due.store(due, std::memory_order_relaxed);
}

Timer* find_timer(int descriptor) {
  if (self == nullptr || descriptor < 0) return nullptr;
  const auto found = std::ranges::find_if(
      timers(), [descriptor](const Timer& timer) { return std::ranges::count(timer.descriptors, descriptor) > 0; });
  return found == timers().end() ? nullptr : &*found;
}

// Records expirations at `when`.
void expire(Timer& timer, std::uint64_t count, Nanoseconds when) {
  if (!timer.descriptors.empty()) {
    TWIN_REAL(eventfd_write)(timer.descriptors.front(), count);
    wake_descriptor_waiters_at(when);
  } else if (timer.signal != 0) {
    timer.unsent += count;
    signal_due = true;
    timeline().interrupt_first(when);
  }
}

void arm(Timer& timer, Nanoseconds due, Nanoseconds interval) {
  timer.due = due;
  timer.interval = interval;
  timer.unsent = 0;
  timer.overrun = 0;
  if (due < self->now() && interval > 0) {  // all expirations of the past are recorded at once
    const Nanoseconds missed = (self->now() - due) / interval + 1;
    timer.due += missed * interval;
    expire(timer, static_cast<std::uint64_t>(missed), self->now());
  }
  find_next_due();
  timeline().source_changed(*self);
  if (timer.signal != 0 && due != kNever) begin_watching();
  spend(0);
}

// As timer_settime().
void set(Timer& timer, int flags, const itimerspec& value) {
  const Nanoseconds time = to_ns(value.it_value);
  const bool absolute = (flags & TIMER_ABSTIME) != 0;
  const Nanoseconds due = absolute ? deadline(timer.clock, value.it_value) : self->now() + time;
  arm(timer, time == 0 ? kNever : due, to_ns(value.it_interval));
}

bool is_valid_setting(const itimerspec* value) {
  if (value != nullptr && is_valid(value->it_value) && is_valid(value->it_interval)) return true;
  errno = value == nullptr ? EFAULT : EINVAL;
  return false;
}

// The time that is left at `now`. An armed timer has at least 1 ns left.
itimerspec left(const Timer& timer, Nanoseconds now) {
  const Nanoseconds time = timer.due == kNever ? 0 : std::max<Nanoseconds>(timer.due - now, 1);
  return {to_timespec(timer.interval), to_timespec(time)};
}

timespec timespec_of(const timeval& time) { return {time.tv_sec, time.tv_usec * kMicrosecond}; }
// Rounds up, because 0 is the value of a timer that is not armed.
timeval timeval_of(const timespec& time) {
  const Nanoseconds microseconds = (to_ns(time) + kMicrosecond - 1) / kMicrosecond;
  return {microseconds / 1'000'000, microseconds % 1'000'000};
}

// As setitimer() for a time in microseconds. Returns the time that was left, rounded up to microseconds.
Nanoseconds set_alarm(Nanoseconds time, Nanoseconds interval) {
  Timer& timer = timers().front();
  const Nanoseconds before = timer.due == kNever ? 0 : std::max<Nanoseconds>(timer.due - self->now(), 1);
  arm(timer, time == 0 ? kNever : self->now() + time, interval);
  return before;
}

// Refuses a timer while another process of the program runs, whose virtual time is unknown here.
void refuse_with_children() {
  siginfo_t child{};
  if (waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) != 0 || child.si_pid != 0) return;
  refuse("a timer of a program that waits for another process", "each process has a virtual time of its own",
         "Start `timeout` and similar programs before `twin run`, not after it");
}

// Sends the signal of a timer to the calling thread. Returns whether a handler of the program runs.
bool send(Timer& timer) {
  refuse_with_children();
  timer.overrun = static_cast<int>(std::min<std::uint64_t>(timer.unsent - 1, INT_MAX));
  timer.unsent = 0;
  struct sigaction action;
  sigset_t blocked;
  sigaction(timer.signal, nullptr, &action);
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  siginfo_t info{};
  info.si_signo = timer.signal;
  info.si_code = timer.signal_code;
  info.si_overrun = timer.overrun;
  info.si_value = timer.value;
  // to the kernel thread that runs all threads of the program
  const long thread = TWIN_REAL(syscall)(SYS_gettid);
  TWIN_REAL(syscall)(SYS_rt_tgsigqueueinfo, getpid(), thread, info.si_signo, &info);
  return sigismember(&blocked, info.si_signo) == 0 && action.sa_handler != SIG_IGN && action.sa_handler != SIG_DFL;
}

}  // namespace

void expire_timers() {
  const Nanoseconds now = next_timer();
  for (Timer& timer : timers()) {
    if (timer.due != now) continue;
    timer.due = timer.interval > 0 ? now + timer.interval : kNever;
    expire(timer, 1, now);
  }
  find_next_due();
}

bool deliver_signals() {
  if (!timeline().is_first(*self)) return false;
  signal_due = false;
  bool handled = false;
  const auto unsent = [](const Timer& timer) { return timer.unsent > 0; };
  // searches from the beginning each time, because a handler may set and delete timers
  for (;;) {
    const auto timer = std::ranges::find_if(timers(), unsent);
    if (timer == timers().end()) break;
    handled = send(*timer) || handled;
  }
  timeline().wake_all(*self, &signals_key);
  wake_descriptor_waiters();  // signalfd()
  return handled;
}

void forget_signal_timers() {
  std::erase_if(timers(),
                [](const Timer& timer) { return timer.descriptors.empty() && timer.signal_code == SI_TIMER; });
  timers().front().due = kNever;
  timers().front().unsent = 0;
  signal_due = false;
  find_next_due();
}

void copy_timer(int from, int to) {
  if (Timer* const timer = find_timer(from)) timer->descriptors.push_back(to);
}

void forget_timer(int descriptor) {
  Timer* const timer = find_timer(descriptor);
  if (timer == nullptr) return;
  std::erase(timer->descriptors, descriptor);
  if (!timer->descriptors.empty()) return;
  std::erase_if(timers(), [timer](const Timer& each) { return &each == timer; });
  find_next_due();
}

}  // namespace twin

using twin::self;

// ---- alarm() and setitimer()

namespace {

// A timer of processor time would count the host's part of requests, but not the program's own code.
void refuse_processor_timer(const char* what) {
  twin::refuse(what, "the program's own code takes no virtual time", "Use a timer of the clock CLOCK_MONOTONIC");
}

}  // namespace

TWIN_EXPORT int setitimer(__itimer_which_t which, const itimerval* __restrict value,
                          itimerval* __restrict before) noexcept {
  if (self == nullptr) return TWIN_REAL(setitimer)(which, value, before);
  const itimerval off{};
  if (value == nullptr) value = &off;  // as the kernel
  const itimerspec setting{twin::timespec_of(value->it_interval), twin::timespec_of(value->it_value)};
  if (!twin::is_valid_setting(&setting)) return -1;
  if (which != ITIMER_REAL) {
    if (twin::to_ns(setting.it_value) != 0) refuse_processor_timer("a timer of processor time (setitimer)");
    if (before != nullptr) *before = {};
    return 0;
  }
  if (before != nullptr) getitimer(which, before);
  twin::set_alarm(twin::to_ns(setting.it_value), twin::to_ns(setting.it_interval));
  return 0;
}

TWIN_EXPORT int getitimer(__itimer_which_t which, itimerval* value) noexcept {
  if (self == nullptr) return TWIN_REAL(getitimer)(which, value);
  *value = {};
  if (which != ITIMER_REAL) return 0;
  const twin::Nanoseconds now = twin::read_now();
  const itimerspec left = twin::left(twin::timers().front(), now);
  *value = {twin::timeval_of(left.it_interval), twin::timeval_of(left.it_value)};
  return 0;
}

TWIN_EXPORT unsigned int alarm(unsigned int seconds) noexcept {
  if (self == nullptr) return TWIN_REAL(alarm)(seconds);
  const twin::Nanoseconds before = twin::set_alarm(seconds * twin::kSecond, 0);
  // rounds to the nearest second, but never to 0, as the kernel
  const auto rounded = static_cast<unsigned int>((before + twin::kSecond / 2) / twin::kSecond);
  return before == 0 ? 0 : std::max(rounded, 1U);
}

TWIN_EXPORT useconds_t ualarm(useconds_t microseconds, useconds_t interval) noexcept {
  if (self == nullptr) return TWIN_REAL(ualarm)(microseconds, interval);
  const twin::Nanoseconds before = twin::set_alarm(microseconds * twin::kMicrosecond, interval * twin::kMicrosecond);
  return static_cast<useconds_t>((before + twin::kMicrosecond - 1) / twin::kMicrosecond);
}

// ---- timer_create()

namespace twin {
namespace {

// The handle of a timer is its address. Returns nullptr with errno set for any other handle.
Timer* find_timer(timer_t handle) {
  for (Timer& timer : timers()) {
    if (static_cast<timer_t>(&timer) == handle && timer.signal_code == SI_TIMER) return &timer;
  }
  errno = EINVAL;
  return nullptr;
}

}  // namespace
}  // namespace twin

TWIN_EXPORT int timer_create(clockid_t clock, sigevent* __restrict event, timer_t* __restrict result) noexcept {
  if (self == nullptr) return TWIN_REAL(timer_create)(clock, event, result);
  if (clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID || clock < 0) {
    refuse_processor_timer("a timer of processor time (timer_create)");
  }
  const int kind = event == nullptr ? SIGEV_SIGNAL : event->sigev_notify;
  if (kind != SIGEV_SIGNAL && kind != SIGEV_NONE) {
    twin::refuse("a timer for one thread", "all threads share one kernel thread",
                 "Use SIGEV_SIGNAL, or timerfd_create()");
  }
  twin::Timer& timer = twin::timers().emplace_back();
  timer.clock = clock;
  timer.value.sival_ptr = &timer;
  if (event != nullptr) timer.value = event->sigev_value;
  if (kind == SIGEV_SIGNAL) timer.signal = event == nullptr ? SIGALRM : event->sigev_signo;
  *result = &timer;
  return 0;
}

TWIN_EXPORT int timer_delete(timer_t handle) noexcept {
  if (self == nullptr) return TWIN_REAL(timer_delete)(handle);
  if (twin::find_timer(handle) == nullptr) return -1;
  std::erase_if(twin::timers(), [handle](const twin::Timer& timer) { return &timer == handle; });
  twin::find_next_due();
  return 0;
}

TWIN_EXPORT int timer_settime(timer_t handle, int flags, const itimerspec* __restrict value,
                              itimerspec* __restrict before) noexcept {
  if (self == nullptr) return TWIN_REAL(timer_settime)(handle, flags, value, before);
  twin::Timer* const timer = twin::find_timer(handle);
  if (timer == nullptr || !twin::is_valid_setting(value)) return -1;
  if (before != nullptr) *before = twin::left(*timer, self->now());
  twin::set(*timer, flags, *value);
  return 0;
}

TWIN_EXPORT int timer_gettime(timer_t handle, itimerspec* value) noexcept {
  if (self == nullptr) return TWIN_REAL(timer_gettime)(handle, value);
  if (twin::find_timer(handle) == nullptr) return -1;
  const twin::Nanoseconds now = twin::read_now();
  const twin::Timer* const timer = twin::find_timer(handle);  // a handler may have deleted it meanwhile
  if (timer == nullptr) return -1;
  *value = twin::left(*timer, now);
  return 0;
}

TWIN_EXPORT int timer_getoverrun(timer_t handle) noexcept {
  if (self == nullptr) return TWIN_REAL(timer_getoverrun)(handle);
  const twin::Timer* const timer = twin::find_timer(handle);
  return timer == nullptr ? -1 : timer->overrun;
}

// ---- timerfd_create()

TWIN_EXPORT int timerfd_create(clockid_t clock, int flags) noexcept {
  if (self == nullptr) return TWIN_REAL(timerfd_create)(clock, flags);
  const int descriptor =
      eventfd(0, ((flags & TFD_NONBLOCK) != 0 ? EFD_NONBLOCK : 0) | ((flags & TFD_CLOEXEC) != 0 ? EFD_CLOEXEC : 0));
  if (descriptor < 0) return descriptor;
  twin::Timer& timer = twin::timers().emplace_back();
  timer.clock = clock;
  timer.descriptors = {descriptor};
  return descriptor;
}

TWIN_EXPORT int timerfd_settime(int descriptor, int flags, const itimerspec* value, itimerspec* before) noexcept {
  twin::Timer* const timer = twin::find_timer(descriptor);
  if (timer == nullptr) return TWIN_REAL(timerfd_settime)(descriptor, flags, value, before);
  if (!twin::is_valid_setting(value)) return -1;
  if (before != nullptr) *before = twin::left(*timer, self->now());
  eventfd_t expired;
  pollfd ready{descriptor, POLLIN, 0};
  if (TWIN_REAL(poll)(&ready, 1, 0) > 0)
    TWIN_REAL(eventfd_read)(descriptor, &expired);  // setting a timer discards its earlier expirations
  twin::set(*timer, (flags & TFD_TIMER_ABSTIME) != 0 ? TIMER_ABSTIME : 0, *value);
  return 0;
}

TWIN_EXPORT int timerfd_gettime(int descriptor, itimerspec* value) noexcept {
  if (twin::find_timer(descriptor) == nullptr) return TWIN_REAL(timerfd_gettime)(descriptor, value);
  const twin::Nanoseconds now = twin::read_now();
  *value = twin::left(*twin::find_timer(descriptor), now);
  return 0;
}

// Refused with its siblings in time_calls.cc. It is here, because <sys/timex.h> gives its name to ntp_gettimex().
TWIN_EXPORT int ntp_gettime(void* state) noexcept {
  if (self != nullptr) twin::refuse("ntp_gettime()", "it reads the clock of the host", "Use clock_gettime()");
  return TWIN_REAL(ntp_gettime)(state);
}
