// select(), poll() and their kind: other threads' writes make descriptors ready, and timeouts are of virtual time.
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>

#include "preload/process.h"
#include "preload/real.h"

namespace twin {
namespace {

// Who waits for any descriptor waits for this.
const char descriptors_key = 0;

// Asks `look`, which must not block, until it finds something or the time has come. A thread that is alone and has no
// limit really waits: only another process can make something ready.
template <class Look, class Block>
int wait_for(Nanoseconds until, Look look, Block block) {
  for (;;) {
    const int found = look();
    if (found != 0 || self->now() >= until) return found;
    if (timeline().alone() && until == kNever) return block();
    if (!timeline().wait(*self, &descriptors_key, until)) return look();
  }
}

Nanoseconds after(Nanoseconds time) { return self->now() + time; }

}  // namespace

void look_at_descriptors_again() { timeline().wake_all(*self, &descriptors_key); }

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
  const twin::Nanoseconds until =
      timeout == nullptr ? twin::kNever
                         : twin::after(timeout->tv_sec * twin::kSecond + timeout->tv_usec * twin::kMicrosecond);
  return twin::wait_for(until, look, [&] { return TWIN_REAL(select)(count, in, out, odd, nullptr); });
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
  const twin::Nanoseconds until = timeout_ms < 0 ? twin::kNever : twin::after(timeout_ms * twin::kMillisecond);
  return twin::wait_for(
      until, [&] { return TWIN_REAL(poll)(descriptors, count, 0); },
      [&] { return TWIN_REAL(poll)(descriptors, count, -1); });
}

TWIN_EXPORT int ppoll(pollfd* descriptors, nfds_t count, const timespec* timeout, const sigset_t* signals) {
  if (self == nullptr) return TWIN_REAL(ppoll)(descriptors, count, timeout, signals);
  const twin::Nanoseconds until =
      timeout == nullptr ? twin::kNever : twin::after(timeout->tv_sec * twin::kSecond + timeout->tv_nsec);
  return twin::wait_for(
      until, [&] { return TWIN_REAL(poll)(descriptors, count, 0); },
      [&] { return TWIN_REAL(ppoll)(descriptors, count, nullptr, signals); });
}

TWIN_EXPORT int epoll_wait(int set, epoll_event* events, int room, int timeout_ms) {
  if (self == nullptr) return TWIN_REAL(epoll_wait)(set, events, room, timeout_ms);
  const twin::Nanoseconds until = timeout_ms < 0 ? twin::kNever : twin::after(timeout_ms * twin::kMillisecond);
  return twin::wait_for(
      until, [&] { return TWIN_REAL(epoll_wait)(set, events, room, 0); },
      [&] { return TWIN_REAL(epoll_wait)(set, events, room, -1); });
}
