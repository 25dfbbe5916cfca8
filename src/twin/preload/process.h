// The program that runs on the drive: its threads on the virtual timeline, and how it ends.
#pragma once

#include <time.h>

#include <cstdint>
#include <string>

#include "clock/timeline.h"
#include "core/units.h"

namespace twin {

// Virtual time begins here: an uptime of 1000 s, and 2020-01-07 00:00:00 UTC on the calendar.
inline constexpr Nanoseconds kMonotonicStart = 1000 * kSecond;
inline constexpr Nanoseconds kRealtimeStart = 1'578'355'200LL * kSecond;

inline Nanoseconds to_ns(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }
inline timespec to_timespec(Nanoseconds time) { return {time / kSecond, time % kSecond}; }
inline bool is_valid(const timespec& time) { return time.tv_sec >= 0 && time.tv_nsec >= 0 && time.tv_nsec < kSecond; }

// Whether a clock shows the time of the calendar; the other clocks of the system show the time since its start.
inline bool is_calendar(clockid_t clock) {
  constexpr unsigned kCalendar =
      1U << CLOCK_REALTIME | 1U << CLOCK_REALTIME_COARSE | 1U << CLOCK_REALTIME_ALARM | 1U << CLOCK_TAI;
  return clock >= 0 && clock <= CLOCK_TAI && (kCalendar >> clock & 1) != 0;
}

// Returns the time on the virtual timeline at which `clock` shows `time`.
inline Nanoseconds deadline(clockid_t clock, const timespec& time) {
  return is_calendar(clock) ? to_ns(time) - kRealtimeStart + kMonotonicStart : to_ns(time);
}

// The calling thread. It is nullptr before the library is set up, and in the watchdog, which is not a thread of the
// program.
extern thread_local VirtualThread* self __attribute__((tls_model("initial-exec")));

Timeline& timeline();

// Ends the program with status 2 and one line: "twin: error: <what> cannot be served: <why>. <remedy>."
[[noreturn]] void refuse(const char* what, const char* why, const char* remedy);

// Ends the program with status 2 and one line, "twin: error: <message>", for faults other than a refusal.
[[noreturn]] void fail(const std::string& message);

// Whether this process is a forked child that has not called exec(). Such a child has no drive.
bool forked();

// Call in a child that was forked before main() and is to run the program: gives the child the drive.
void begin_execution();
// Ends such a child as exit() does, except that no exit handler of another library runs.
[[noreturn]] void end_execution(int status);

// The seed of the drive's random numbers: N of the program's argument --randseed=N, with which fio also draws its
// offsets, or 0 without this argument. find_drive_seed() looks for it in the program's arguments.
std::uint64_t drive_seed();
void find_drive_seed(int count, const char* const* words);

// Whether the program is fio, even if its file has another name.
bool is_fio();

// Call when the program bypasses or writes back the page cache of a file that is not the drive, as programs do that
// measure a file.
void measures_other_file();

// Returns a name for use in a message: with control characters replaced, and shortened if it is too long.
std::string printable(const char* name);

// The source of the timeline's events: the drive, whose events there are none of until it is created, and the program's
// timers. This function and those below are in drive_file.cc.
EventSource& events();
// Whether the drive has been created, which happens on its first use.
bool drive_in_use();
// Whether the program has sent a request to the drive.
bool drive_was_asked();
// Writes the counters' final values to the files of totals and of time series.
void finish_recording();

// Call after a write to a descriptor: threads that wait in select(), poll() or epoll_wait() check their descriptors
// again.
void wake_descriptor_waiters();
void wake_descriptor_waiters_at(Nanoseconds when);

// Call before reading a descriptor that is not the drive. If it is of eventfd(), timerfd_create() or signalfd(), waits
// as read() does until another thread or a timer makes it readable. Returns -1 with errno set to EINTR if a signal ends
// the wait.
int wait_until_readable(int descriptor);

// Charges processor time to the calling virtual thread and advances its clock by that time.
void spend(Nanoseconds cpu_ns);

// Reads the clock of the calling thread, which takes time as a call of clock_gettime() does.
Nanoseconds read_now();

// Whether a timer of the program has expired whose signal has not been sent.
extern bool signal_due;

// Sends the signals of expired timers if the calling thread is the first one, which gets all of them. Returns whether
// a handler of the program ran.
bool deliver_signals();

enum class Wait : std::uint8_t { kWoken, kTimeUp, kInterrupted };

// Waits until another thread or the drive wakes this thread through `key`, until the time `until`, or until a signal
// of a timer has been handled. A signal that is blocked or ignored may wake the thread, too: the caller must check what
// it waits for.
Wait wait_interruptibly(const void* key, Nanoseconds until);

// futex(2) in virtual time. Returns -1 with errno set, as syscall() does.
long futex(const long (&arguments)[6]);

// Call when a timer is armed: the program may now wait for it alone.
void begin_watching();

// Call before creating a thread of the program. The result becomes `self` in the new thread.
VirtualThread& expect_thread();

// Processor time of a call that sleeps.
inline constexpr Nanoseconds kSleepCall = kMicrosecond;

}  // namespace twin
