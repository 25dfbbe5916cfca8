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

// Returns the time on the virtual timeline at which `clock` shows `time`.
inline Nanoseconds deadline(clockid_t clock, const timespec& time) {
  return clock == CLOCK_REALTIME ? to_ns(time) - kRealtimeStart + kMonotonicStart : to_ns(time);
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

// Returns a name for use in a message: with control characters replaced, and shortened if it is too long.
std::string printable(const char* name);

// The drive as the timeline's source of events; these functions are in drive_file.cc.
Nanoseconds drive_next_event();
void drive_advance(Nanoseconds until);
// Whether the drive has been created, which happens on its first use.
bool drive_in_use();
// Whether the program has sent a request to the drive.
bool drive_was_asked();
// Writes the counters' final values to the files of totals and of time series.
void finish_recording();

// Call after a write to a descriptor: threads that wait in select(), poll() or epoll_wait() check their descriptors
// again.
void wake_descriptor_waiters();

// Call when a descriptor is closed. If it belongs to a timer of timerfd_create(), the timer is removed.
void forget_timer(int descriptor);

// Charges processor time to the calling virtual thread and advances its clock by that time.
void spend(Nanoseconds cpu_ns);

// Call before creating a thread of the program. The result becomes `self` in the new thread.
VirtualThread& expect_thread();

// Processor time of a call that sleeps.
inline constexpr Nanoseconds kSleepCall = kMicrosecond;

}  // namespace twin
