// Waiting for descriptors and signals: select(), poll(), epoll, eventfd, pause(), sigwait(). Their time limits are in
// virtual time. Calls that wait for descriptors check them again after each write by another thread.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "preload/process.h"
#include "preload/real.h"
#include "preload/timers.h"

// The checked variants of glibc, for programs built with _FORTIFY_SOURCE, and second names.
extern "C" {
int __poll(pollfd*, nfds_t, int);
int __poll_chk(pollfd*, nfds_t, int, size_t);
int __ppoll_chk(pollfd*, nfds_t, const timespec*, const sigset_t*, size_t);
int __select(int, fd_set*, fd_set*, fd_set*, timeval*);
}

namespace twin {
namespace {

// The key on the timeline for which all threads wait that wait for descriptors.
const char descriptors_key = 0;

// Replaces the signal mask during its lifetime. Without a mask it does nothing.
class SignalMask {
 public:
  explicit SignalMask(const sigset_t* mask) : replaced_(mask != nullptr) {
    if (!replaced_) return;
    sigset_t pending;
    sigpending(&pending);
    for (int signal = 1; signal < NSIG; ++signal) {
      admitted_ = admitted_ || (sigismember(&pending, signal) == 1 && sigismember(mask, signal) == 0);
    }
    pthread_sigmask(SIG_SETMASK, mask, &before_);
  }
  ~SignalMask() {
    if (replaced_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;

  // Whether the mask has admitted a signal that waited for this.
  [[nodiscard]] bool admitted() const { return admitted_; }

 private:
  bool replaced_;
  bool admitted_ = false;
  sigset_t before_;
};

// Whether only another process can end a wait of the calling thread that has no time limit.
bool waits_for_other_process() { return timeline().alone() && next_timer() == kNever; }

int interrupted() {
  errno = EINTR;
  return -1;
}

// Calls `look`, which must not block, until it returns a number of ready descriptors other than 0, or until `until`.
// Calls `block` instead of waiting in virtual time if only another process can make a descriptor ready. `signals` is
// the signal mask during the wait.
template <class Look, class Block>
int wait_for(Nanoseconds until, const sigset_t* signals, Look look, Block block) {
  const SignalMask mask(signals);
  for (;;) {
    const int found = look();
    if (found != 0 || self->now() >= until) return found;
    if (mask.admitted()) return interrupted();
    if (until == kNever && waits_for_other_process()) return block();
    if (wait_interruptibly(&descriptors_key, until) == Wait::kInterrupted) return interrupted();
  }
}

// The time at which a wait ends that begins now; kNever without a time limit.
Nanoseconds end_of(int timeout_ms) { return timeout_ms < 0 ? kNever : self->now() + timeout_ms * kMillisecond; }
Nanoseconds end_of(const timespec* timeout) { return timeout == nullptr ? kNever : self->now() + to_ns(*timeout); }

int poll_until(Nanoseconds until, pollfd* descriptors, nfds_t count, const sigset_t* signals) {
  return wait_for(
      until, signals, [&] { return TWIN_REAL(poll)(descriptors, count, 0); },
      [&] { return TWIN_REAL(poll)(descriptors, count, -1); });
}

int epoll_until(Nanoseconds until, int set, epoll_event* events, int room, const sigset_t* signals) {
  return wait_for(
      until, signals, [&] { return TWIN_REAL(epoll_wait)(set, events, room, 0); },
      [&] { return TWIN_REAL(epoll_wait)(set, events, room, -1); });
}

// select() with the kernel's effect on the time limit, which becomes the time that is left.
int select_until(Nanoseconds until, const sigset_t* signals, int count, fd_set* in, fd_set* out, fd_set* odd) {
  const fd_set none{};
  const fd_set asked[3] = {in != nullptr ? *in : none, out != nullptr ? *out : none, odd != nullptr ? *odd : none};
  const auto look = [&] {
    if (in != nullptr) *in = asked[0];
    if (out != nullptr) *out = asked[1];
    if (odd != nullptr) *odd = asked[2];
    timeval zero{0, 0};
    return TWIN_REAL(select)(count, in, out, odd, &zero);
  };
  return wait_for(until, signals, look, [&] { return TWIN_REAL(select)(count, in, out, odd, nullptr); });
}

}  // namespace

void wake_descriptor_waiters_at(Nanoseconds when) {
  while (timeline().wake_one_at(&descriptors_key, when)) {
  }
}

int wait_until_readable(int descriptor) {
  if (self == nullptr || waits_for_other_process()) return 0;
  struct stat status;
  // the kernel gives no type to descriptors without a file
  if (fstat(descriptor, &status) != 0 || (status.st_mode & S_IFMT) != 0) return 0;
  if ((TWIN_REAL(fcntl)(descriptor, F_GETFL) & O_NONBLOCK) != 0) return 0;
  pollfd ready{descriptor, POLLIN, 0};
  return poll_until(kNever, &ready, 1, nullptr) < 0 ? -1 : 0;
}

void wake_descriptor_waiters() { timeline().wake_all(*self, &descriptors_key); }

}  // namespace twin

using twin::self;

TWIN_EXPORT int select(int count, fd_set* __restrict in, fd_set* __restrict out, fd_set* __restrict odd,
                       timeval* __restrict timeout) {
  if (self == nullptr) return TWIN_REAL(select)(count, in, out, odd, timeout);
  if (timeout == nullptr) return twin::select_until(twin::kNever, nullptr, count, in, out, odd);
  const timespec limit{timeout->tv_sec, timeout->tv_usec * twin::kMicrosecond};
  const twin::Nanoseconds until = twin::end_of(&limit);
  const int found = twin::select_until(until, nullptr, count, in, out, odd);
  const twin::Nanoseconds left = std::max<twin::Nanoseconds>(until - self->now(), 0);
  *timeout = {left / twin::kSecond, left % twin::kSecond / twin::kMicrosecond};
  return found;
}

TWIN_EXPORT int __select(int, fd_set*, fd_set*, fd_set*, timeval*) TWIN_ALIAS_OF(select);

TWIN_EXPORT int pselect(int count, fd_set* __restrict in, fd_set* __restrict out, fd_set* __restrict odd,
                        const timespec* __restrict timeout, const sigset_t* __restrict signals) {
  if (self == nullptr) return TWIN_REAL(pselect)(count, in, out, odd, timeout, signals);
  return twin::select_until(twin::end_of(timeout), signals, count, in, out, odd);
}

TWIN_EXPORT int poll(pollfd* descriptors, nfds_t count, int timeout_ms) {
  if (self == nullptr) return TWIN_REAL(poll)(descriptors, count, timeout_ms);
  return twin::poll_until(twin::end_of(timeout_ms), descriptors, count, nullptr);
}

TWIN_EXPORT int __poll(pollfd*, nfds_t, int) TWIN_ALIAS_OF(poll);

TWIN_EXPORT int __poll_chk(pollfd* descriptors, nfds_t count, int timeout_ms, size_t) {
  return poll(descriptors, count, timeout_ms);
}

TWIN_EXPORT int ppoll(pollfd* descriptors, nfds_t count, const timespec* timeout, const sigset_t* signals) {
  if (self == nullptr) return TWIN_REAL(ppoll)(descriptors, count, timeout, signals);
  return twin::poll_until(twin::end_of(timeout), descriptors, count, signals);
}

TWIN_EXPORT int __ppoll_chk(pollfd* descriptors, nfds_t count, const timespec* timeout, const sigset_t* signals,
                            size_t) {
  return ppoll(descriptors, count, timeout, signals);
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

// ---- descriptors of eventfd()

TWIN_EXPORT int eventfd_read(int descriptor, eventfd_t* value) {
  if (self == nullptr) return TWIN_REAL(eventfd_read)(descriptor, value);
  return read(descriptor, value, sizeof *value) == sizeof *value ? 0 : -1;
}

TWIN_EXPORT int eventfd_write(int descriptor, eventfd_t value) {
  if (self == nullptr) return TWIN_REAL(eventfd_write)(descriptor, value);
  return write(descriptor, &value, sizeof value) == sizeof value ? 0 : -1;
}

// ---- signals

namespace twin {
namespace {

// Waits until a handler of the program has run, as pause() does.
int wait_for_handler(const sigset_t* signals) {
  const SignalMask mask(signals);
  while (!mask.admitted() && wait_interruptibly(&signals_key, kNever) != Wait::kInterrupted) {
  }
  return interrupted();
}

// Waits as sigtimedwait() does. `info` may be nullptr.
int wait_for_signal(const sigset_t* signals, siginfo_t* info, Nanoseconds until) {
  for (;;) {
    constexpr timespec kNone{0, 0};
    const int signal = TWIN_REAL(sigtimedwait)(signals, info, &kNone);
    if (signal >= 0 || errno != EAGAIN || self->now() >= until) return signal;
    if (until == kNever && waits_for_other_process()) return TWIN_REAL(sigwaitinfo)(signals, info);
    if (wait_interruptibly(&signals_key, until) == Wait::kInterrupted) return interrupted();
  }
}

}  // namespace
}  // namespace twin

TWIN_EXPORT int pause() {
  if (self == nullptr || twin::waits_for_other_process()) return TWIN_REAL(pause)();
  return twin::wait_for_handler(nullptr);
}

TWIN_EXPORT int sigsuspend(const sigset_t* signals) {
  if (self == nullptr || twin::waits_for_other_process()) return TWIN_REAL(sigsuspend)(signals);
  return twin::wait_for_handler(signals);
}

TWIN_EXPORT int sigtimedwait(const sigset_t* __restrict signals, siginfo_t* __restrict info,
                             const timespec* __restrict timeout) {
  if (self == nullptr) return TWIN_REAL(sigtimedwait)(signals, info, timeout);
  return twin::wait_for_signal(signals, info, twin::end_of(timeout));
}

TWIN_EXPORT int sigwaitinfo(const sigset_t* __restrict signals, siginfo_t* __restrict info) {
  if (self == nullptr) return TWIN_REAL(sigwaitinfo)(signals, info);
  return twin::wait_for_signal(signals, info, twin::kNever);
}

TWIN_EXPORT int sigwait(const sigset_t* __restrict signals, int* __restrict result) {
  if (self == nullptr) return TWIN_REAL(sigwait)(signals, result);
  do {
    *result = twin::wait_for_signal(signals, nullptr, twin::kNever);
  } while (*result < 0 && errno == EINTR);
  return *result < 0 ? errno : 0;
}
