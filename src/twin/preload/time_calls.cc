// Clocks, sleeps and resource usage, all in virtual time.
#include <errno.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "preload/process.h"
#include "preload/real.h"

namespace twin {
namespace {

timeval to_timeval(Nanoseconds time) {
  timeval result;
  result.tv_sec = static_cast<time_t>(time / kSecond);
  result.tv_usec = static_cast<suseconds_t>(time % kSecond / 1000);
  return result;
}

// The number of consecutive readings of the clock that take no time. A program reads the clock a few times for each
// request, and the cost of a request includes these readings.
constexpr std::uint64_t kFreeReadings = 8;
// A thread that reads the clock more often in a row waits for a certain time, and its loop must end. A reading takes
// 1/64 of the time that the thread has waited, so that the loop is short, but at least as long as on a real machine,
// and less than a microsecond, the unit in which programs wait.
constexpr Nanoseconds kShortestReading = 20;
constexpr Nanoseconds kLongestReading = 250;
constexpr Nanoseconds kReadingsInWaited = 64;
// The duration of each reading before there is a second thread. fio calibrates its clock by reading it in a loop for a
// fixed time: with fewer readings fio starts sooner.
constexpr Nanoseconds kReadingAtStart = 2 * kMicrosecond;

// Returns how long the next reading takes.
Nanoseconds reading_time(ClockReadings& readings) {
  if (timeline().alone() && !drive_in_use()) return kReadingAtStart;
  if (self->now() != readings.last_ns) {
    readings.in_row = 0;
    readings.first_ns = self->now();
  }
  if (readings.in_row++ < kFreeReadings) return 0;
  return std::clamp((self->now() - readings.first_ns) / kReadingsInWaited, kShortestReading, kLongestReading);
}

// Returns what a clock shows to the calling thread.
Nanoseconds read_clock(clockid_t clock) {
  ClockReadings& readings = self->clock_readings;
  ++readings.all;
  timeline().advance(*self, reading_time(readings));
  readings.last_ns = self->now();
  switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_TAI:
      return self->now() - kMonotonicStart + kRealtimeStart;
    case CLOCK_PROCESS_CPUTIME_ID:
    case CLOCK_THREAD_CPUTIME_ID:
      return self->cpu_ns;
    default:
      return self->now();
  }
}

// The call itself takes a little time, even if the thread sleeps for 0 ns: a loop that sleeps for the remaining time
// must come to an end.
void sleep_until(Nanoseconds until) {
  spend(kSleepCall);
  if (until > self->now()) timeline().wait(*self, nullptr, until);
}

}  // namespace
}  // namespace twin

using twin::self;

TWIN_EXPORT int clock_gettime(clockid_t clock, timespec* result) {
  // negative: processor time of another thread
  if (self == nullptr || clock < 0) return TWIN_REAL(clock_gettime)(clock, result);
  *result = twin::to_timespec(twin::read_clock(clock));
  return 0;
}

TWIN_EXPORT int gettimeofday(timeval* __restrict result, void* __restrict zone) {
  if (self == nullptr) return TWIN_REAL(gettimeofday)(result, zone);
  *result = twin::to_timeval(twin::read_clock(CLOCK_REALTIME));
  return 0;
}

TWIN_EXPORT time_t time(time_t* result) {
  if (self == nullptr) return TWIN_REAL(time)(result);
  const auto now = static_cast<time_t>(twin::read_clock(CLOCK_REALTIME) / twin::kSecond);
  if (result != nullptr) *result = now;
  return now;
}

TWIN_EXPORT int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* rest) {
  if (self == nullptr) return TWIN_REAL(clock_nanosleep)(clock, flags, time, rest);
  twin::sleep_until((flags & TIMER_ABSTIME) != 0 ? twin::deadline(clock, *time) : self->now() + twin::to_ns(*time));
  if (rest != nullptr) *rest = {0, 0};
  return 0;
}

TWIN_EXPORT int nanosleep(const timespec* time, timespec* rest) {
  if (self == nullptr) return TWIN_REAL(nanosleep)(time, rest);
  return clock_nanosleep(CLOCK_MONOTONIC, 0, time, rest);
}

TWIN_EXPORT int usleep(useconds_t microseconds) {
  if (self == nullptr) return TWIN_REAL(usleep)(microseconds);
  twin::sleep_until(self->now() + static_cast<twin::Nanoseconds>(microseconds) * twin::kMicrosecond);
  return 0;
}

TWIN_EXPORT unsigned int sleep(unsigned int seconds) {
  if (self == nullptr) return TWIN_REAL(sleep)(seconds);
  twin::sleep_until(self->now() + static_cast<twin::Nanoseconds>(seconds) * twin::kSecond);
  return 0;
}

TWIN_EXPORT int sched_yield() noexcept {
  if (self == nullptr) return TWIN_REAL(sched_yield)();
  twin::spend(twin::kMicrosecond);
  return 0;
}

// A thread uses processor time for the host's part of a request, and none while it waits for I/O. There are no page
// faults and no preemptions in virtual time.
TWIN_EXPORT int getrusage(__rusage_who_t who, rusage* usage) noexcept {
  if (self == nullptr) return TWIN_REAL(getrusage)(who, usage);
  *usage = {};
  if (who == RUSAGE_CHILDREN) return 0;
  usage->ru_stime = twin::to_timeval(self->cpu_ns);
  usage->ru_nvcsw = static_cast<long>(self->waits);
  return 0;
}

TWIN_EXPORT clock_t times(tms* result) noexcept {
  if (self == nullptr) return TWIN_REAL(times)(result);
  const long ticks = sysconf(_SC_CLK_TCK);
  *result = {};
  result->tms_stime = static_cast<clock_t>(self->cpu_ns / (twin::kSecond / ticks));
  return static_cast<clock_t>(self->now() / (twin::kSecond / ticks));
}

TWIN_EXPORT clock_t clock() noexcept {
  if (self == nullptr) return TWIN_REAL(clock)();
  return static_cast<clock_t>(self->cpu_ns / 1000);
}
