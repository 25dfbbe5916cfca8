// Clocks, sleeps and resource usage, all in virtual time. Calls that would use the host's clock are refused.
#include <aio.h>
#include <errno.h>
#include <mqueue.h>
#include <netdb.h>
#include <sys/profil.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timeb.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "preload/process.h"
#include "preload/real.h"

// Second names of functions.
extern "C" {
int __adjtimex(timex*) noexcept;
int __gettimeofday(timeval*, void*);
int __nanosleep(const timespec*, timespec*);
int __sched_yield() noexcept;
}

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

// Returns how long the next reading takes. `in_row` counts its kind of readings.
__attribute__((always_inline)) inline Nanoseconds reading_time(ClockReadings& readings, std::uint64_t& in_row) {
  if (self->now() != readings.last_ns) {
    readings.in_row = readings.processor_in_row = 0;
    readings.first_ns = self->now();
  }
  if (in_row++ < kFreeReadings) return 0;
  return std::clamp((self->now() - readings.first_ns) / kReadingsInWaited, kShortestReading, kLongestReading);
}

// Returns the processor time of the calling thread, or of all threads. A reading uses processor time itself, so that a
// loop that waits for a certain processor time ends.
Nanoseconds read_processor_time(bool of_process) {
  ClockReadings& readings = self->clock_readings;
  spend(reading_time(readings, readings.processor_in_row));
  readings.last_ns = self->now();
  if (!of_process) return self->cpu_ns;
  Nanoseconds all = 0;
  timeline().for_all([&](const VirtualThread& each) { all += each.cpu_ns; });
  return all;
}

// Returns what a clock shows to the calling thread.
Nanoseconds read_clock(clockid_t clock) {
  if (clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID) {
    return read_processor_time(clock == CLOCK_PROCESS_CPUTIME_ID);
  }
  const Nanoseconds now = read_now();
  return is_calendar(clock) ? now - kMonotonicStart + kRealtimeStart : now;
}

// Whether the system has a clock of this number.
bool is_clock(clockid_t clock) {
  return clock >= CLOCK_REALTIME && clock <= CLOCK_TAI && clock != 10;  // 10 has been removed from Linux
}

// Sleeps until the time `until`, or until a signal has been handled, and returns the time that is left then. The call
// itself takes a little time, even if the thread sleeps for 0 ns: a loop that sleeps for the remaining time must come
// to an end.
Nanoseconds sleep_until(Nanoseconds until) {
  spend(kSleepCall);
  while (until > self->now()) {
    if (wait_interruptibly(nullptr, until) != Wait::kInterrupted) continue;
    return std::max<Nanoseconds>(until - self->now(), 1);
  }
  return 0;
}

[[noreturn]] void refuse_host_clock(const char* call) {
  refuse(call, "it reads or sets the clock of the host", "Use clock_gettime() for virtual time");
}

[[noreturn]] void refuse_time_limit(const char* call) {
  refuse((std::string(call) + "() with a time limit").c_str(), "it waits in the kernel, where the host's clock runs",
         "Use poll() or the functions of pthreads for waits with a time limit");
}

}  // namespace

Nanoseconds read_now() {
  ClockReadings& readings = self->clock_readings;
  ++readings.all;
  const bool at_start = timeline().alone() && !drive_in_use();
  timeline().advance(*self, at_start ? kReadingAtStart : reading_time(readings, readings.in_row));
  readings.last_ns = self->now();
  if (signal_due) [[unlikely]]
    deliver_signals();
  return readings.last_ns;
}

}  // namespace twin

using twin::self;

TWIN_EXPORT int clock_gettime(clockid_t clock, timespec* result) {
  if (self == nullptr) return TWIN_REAL(clock_gettime)(clock, result);
  if (!twin::is_clock(clock)) [[unlikely]] {
    if (clock < 0) {
      twin::refuse("the clock of another process, another thread or a device", "it runs on the host",
                   "Use CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID or CLOCK_THREAD_CPUTIME_ID");
    }
    errno = EINVAL;
    return -1;
  }
  *result = twin::to_timespec(twin::read_clock(clock));
  return 0;
}

TWIN_EXPORT int gettimeofday(timeval* __restrict result, void* __restrict zone) {
  if (self == nullptr) return TWIN_REAL(gettimeofday)(result, zone);
  *result = twin::to_timeval(twin::read_clock(CLOCK_REALTIME));
  return 0;
}

TWIN_EXPORT int __gettimeofday(timeval* result, void* zone) { return gettimeofday(result, zone); }

TWIN_EXPORT int timespec_get(timespec* result, int base) noexcept {
  if (self == nullptr) return TWIN_REAL(timespec_get)(result, base);
  if (base != TIME_UTC) return 0;
  clock_gettime(CLOCK_REALTIME, result);
  return base;
}

TWIN_EXPORT int ftime(timeb* result) {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  *result = {now.tv_sec, static_cast<unsigned short>(now.tv_nsec / twin::kMillisecond), 0, 0};
  return 0;
}

TWIN_EXPORT int clock_getres(clockid_t clock, timespec* result) noexcept {
  if (self == nullptr) return TWIN_REAL(clock_getres)(clock, result);
  if (clock >= 0 && !twin::is_clock(clock)) {
    errno = EINVAL;
    return -1;
  }
  if (result != nullptr) *result = {0, 1};
  return 0;
}

TWIN_EXPORT int timespec_getres(timespec* result, int base) noexcept {
  if (self == nullptr) return TWIN_REAL(timespec_getres)(result, base);
  if (base != TIME_UTC) return 0;
  if (result != nullptr) *result = {0, 1};
  return base;
}

TWIN_EXPORT time_t time(time_t* result) {
  if (self == nullptr) return TWIN_REAL(time)(result);
  const auto now = static_cast<time_t>(twin::read_clock(CLOCK_REALTIME) / twin::kSecond);
  if (result != nullptr) *result = now;
  return now;
}

TWIN_EXPORT int sysinfo(struct sysinfo* result) noexcept {
  const int error = TWIN_REAL(sysinfo)(result);
  if (self != nullptr && error == 0) result->uptime = twin::read_clock(CLOCK_BOOTTIME) / twin::kSecond;
  return error;
}

TWIN_EXPORT int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* rest) {
  if (self == nullptr) return TWIN_REAL(clock_nanosleep)(clock, flags, time, rest);
  if (!twin::is_clock(clock) || clock == CLOCK_THREAD_CPUTIME_ID || !twin::is_valid(*time)) return EINVAL;
  if (clock == CLOCK_PROCESS_CPUTIME_ID) {
    twin::refuse("a sleep on the clock of processor time", "the program's own code takes no virtual time",
                 "Use CLOCK_MONOTONIC");
  }
  const bool absolute = (flags & TIMER_ABSTIME) != 0;
  const twin::Nanoseconds left =
      twin::sleep_until(absolute ? twin::deadline(clock, *time) : self->now() + twin::to_ns(*time));
  if (left == 0) return 0;
  if (rest != nullptr && !absolute) *rest = twin::to_timespec(left);
  return EINTR;
}

TWIN_EXPORT int nanosleep(const timespec* time, timespec* rest) {
  if (self == nullptr) return TWIN_REAL(nanosleep)(time, rest);
  const int error = clock_nanosleep(CLOCK_MONOTONIC, 0, time, rest);
  if (error == 0) return 0;
  errno = error;
  return -1;
}

TWIN_EXPORT int __nanosleep(const timespec*, timespec*) TWIN_ALIAS_OF(nanosleep);

TWIN_EXPORT int thrd_sleep(const timespec* time, timespec* rest) {
  if (self == nullptr) return TWIN_REAL(thrd_sleep)(time, rest);
  const int error = clock_nanosleep(CLOCK_REALTIME, 0, time, rest);
  return error == 0 ? 0 : error == EINTR ? -1 : -2;
}

TWIN_EXPORT int usleep(useconds_t microseconds) {
  if (self == nullptr) return TWIN_REAL(usleep)(microseconds);
  const timespec time = twin::to_timespec(microseconds * twin::kMicrosecond);
  return nanosleep(&time, nullptr);
}

TWIN_EXPORT unsigned int sleep(unsigned int seconds) {
  if (self == nullptr) return TWIN_REAL(sleep)(seconds);
  const twin::Nanoseconds left = twin::sleep_until(self->now() + seconds * twin::kSecond);
  return static_cast<unsigned int>((left + twin::kSecond - 1) / twin::kSecond);
}

TWIN_EXPORT int sched_yield() noexcept {
  if (self == nullptr) return TWIN_REAL(sched_yield)();
  twin::spend(twin::kMicrosecond);
  return 0;
}

TWIN_EXPORT int __sched_yield() noexcept TWIN_ALIAS_OF(sched_yield);

// ---- processor time

TWIN_EXPORT int clock_getcpuclockid(pid_t process, clockid_t* result) noexcept {
  if (self == nullptr) return TWIN_REAL(clock_getcpuclockid)(process, result);
  if (process != 0 && process != getpid()) {
    twin::refuse("the processor time of another process", "it runs on the host", "Use CLOCK_PROCESS_CPUTIME_ID");
  }
  *result = CLOCK_PROCESS_CPUTIME_ID;
  return 0;
}

TWIN_EXPORT int pthread_getcpuclockid(pthread_t thread, clockid_t* result) noexcept {
  if (self == nullptr) return TWIN_REAL(pthread_getcpuclockid)(thread, result);
  if (pthread_equal(thread, pthread_self()) == 0) {
    twin::refuse("the processor time of another thread", "all threads share one kernel thread",
                 "Use CLOCK_THREAD_CPUTIME_ID in the thread itself");
  }
  *result = CLOCK_THREAD_CPUTIME_ID;
  return 0;
}

// A thread uses processor time for the host's part of a request, and none while it waits for I/O. There are no page
// faults and no preemptions in virtual time.
TWIN_EXPORT int getrusage(__rusage_who_t who, rusage* usage) noexcept {
  if (self == nullptr) return TWIN_REAL(getrusage)(who, usage);
  *usage = {};
  if (who == RUSAGE_CHILDREN) return 0;
  const bool of_process = who == RUSAGE_SELF;
  usage->ru_stime = twin::to_timeval(twin::read_processor_time(of_process));
  std::uint64_t waits = 0;
  twin::timeline().for_all(
      [&](const twin::VirtualThread& each) { waits += of_process || &each == self ? each.waits : 0; });
  usage->ru_nvcsw = static_cast<long>(waits);
  return 0;
}

TWIN_EXPORT clock_t times(tms* result) noexcept {
  if (self == nullptr) return TWIN_REAL(times)(result);
  const twin::Nanoseconds tick = twin::kSecond / sysconf(_SC_CLK_TCK);
  if (result != nullptr) {
    *result = {};
    result->tms_stime = static_cast<clock_t>(twin::read_processor_time(true) / tick);
  }
  return static_cast<clock_t>(twin::read_clock(CLOCK_MONOTONIC) / tick);
}

TWIN_EXPORT clock_t clock() noexcept {
  if (self == nullptr) return TWIN_REAL(clock)();
  return static_cast<clock_t>(twin::read_clock(CLOCK_PROCESS_CPUTIME_ID) / twin::kMicrosecond);
}

// The usage of a child is 0, because a child has a virtual time of its own.
TWIN_EXPORT pid_t wait4(pid_t process, int* status, int options, rusage* usage) noexcept {
  const pid_t ended = TWIN_REAL(wait4)(process, status, options, usage);
  if (self != nullptr && ended > 0 && usage != nullptr) *usage = {};
  return ended;
}

TWIN_EXPORT pid_t wait3(int* status, int options, rusage* usage) noexcept { return wait4(-1, status, options, usage); }

// ---- calls that are refused, because the host's clock would run: with a drive all of them, or with a time limit

#define TWIN_REFUSE_HOST_CLOCK(function, ...)                   \
  if (self != nullptr) twin::refuse_host_clock(#function "()"); \
  return TWIN_REAL(function)(__VA_ARGS__)

#define TWIN_REFUSE_TIME_LIMIT(limit, function, ...)                  \
  if (self != nullptr && (limit)) twin::refuse_time_limit(#function); \
  return TWIN_REAL(function)(__VA_ARGS__)

TWIN_EXPORT int clock_settime(clockid_t clock, const timespec* time) noexcept {
  TWIN_REFUSE_HOST_CLOCK(clock_settime, clock, time);
}

TWIN_EXPORT int settimeofday(const timeval* time, const struct timezone* zone) noexcept {
  TWIN_REFUSE_HOST_CLOCK(settimeofday, time, zone);
}

TWIN_EXPORT int adjtime(const timeval* change, timeval* before) noexcept {
  TWIN_REFUSE_HOST_CLOCK(adjtime, change, before);
}

TWIN_EXPORT int adjtimex(timex* state) noexcept { TWIN_REFUSE_HOST_CLOCK(adjtimex, state); }

TWIN_EXPORT int __adjtimex(timex* state) noexcept { return adjtimex(state); }

TWIN_EXPORT int ntp_adjtime(timex* state) noexcept { return adjtimex(state); }

TWIN_EXPORT int clock_adjtime(clockid_t clock, timex* state) noexcept {
  TWIN_REFUSE_HOST_CLOCK(clock_adjtime, clock, state);
}

TWIN_EXPORT int ntp_gettimex(ntptimeval* state) noexcept { TWIN_REFUSE_HOST_CLOCK(ntp_gettimex, state); }

TWIN_EXPORT int sprofil(prof* profiles, int count, timeval* period, unsigned int flags) noexcept {
  TWIN_REFUSE_HOST_CLOCK(sprofil, profiles, count, period, flags);
}

TWIN_EXPORT int profil(unsigned short* buffer, size_t size, size_t offset, unsigned int scale) noexcept {
  TWIN_REFUSE_HOST_CLOCK(profil, buffer, size, offset, scale);
}

TWIN_EXPORT int aio_suspend(const aiocb* const list[], int count, const timespec* timeout) {
  TWIN_REFUSE_TIME_LIMIT(timeout != nullptr, aio_suspend, list, count, timeout);
}

TWIN_EXPORT int aio_suspend64(const aiocb64* const list[], int count, const timespec* timeout) {
  TWIN_REFUSE_TIME_LIMIT(timeout != nullptr, aio_suspend64, list, count, timeout);
}

TWIN_EXPORT int gai_suspend(const gaicb* const list[], int count, const timespec* timeout) {
  TWIN_REFUSE_TIME_LIMIT(timeout != nullptr, gai_suspend, list, count, timeout);
}

TWIN_EXPORT ssize_t mq_timedreceive(mqd_t queue, char* __restrict message, size_t size,
                                    unsigned int* __restrict priority, const timespec* __restrict time) {
  TWIN_REFUSE_TIME_LIMIT(true, mq_timedreceive, queue, message, size, priority, time);
}

TWIN_EXPORT int mq_timedsend(mqd_t queue, const char* message, size_t size, unsigned int priority,
                             const timespec* time) {
  TWIN_REFUSE_TIME_LIMIT(true, mq_timedsend, queue, message, size, priority, time);
}

TWIN_EXPORT int recvmmsg(int socket, mmsghdr* messages, unsigned int count, int flags, timespec* timeout) {
  TWIN_REFUSE_TIME_LIMIT(timeout != nullptr, recvmmsg, socket, messages, count, flags, timeout);
}

TWIN_EXPORT int semtimedop(int set, sembuf* operations, size_t count, const timespec* timeout) noexcept {
  TWIN_REFUSE_TIME_LIMIT(timeout != nullptr, semtimedop, set, operations, count, timeout);
}
