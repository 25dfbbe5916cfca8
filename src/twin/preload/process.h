// The program as this library sees it: its threads on the virtual timeline, and the drive that it has been given.
#pragma once

#include <cstdint>
#include <string>

#include "clock/timeline.h"
#include "core/units.h"

namespace twin {

// Virtual time begins here: an uptime of 1000 s, and 2020-01-07 00:00:00 UTC on the calendar.
inline constexpr Nanoseconds kMonotonicStart = 1000 * kSecond;
inline constexpr Nanoseconds kRealtimeStart = 1'578'355'200LL * kSecond;

// What a reading of the clock costs its thread, so that a loop that waits for a time comes to its end.
inline constexpr Nanoseconds kClockReading = 20;
// Before there is a second thread a reading costs more: fio calibrates its clock by millions of them.
inline constexpr Nanoseconds kClockReadingAtStart = 2 * kMicrosecond;

// The thread that calls, nullptr when it is none of the program's (the watchdog), or before the library is set up.
extern thread_local VirtualThread* self __attribute__((tls_model("initial-exec")));

Timeline& timeline();

// Ends the program with status 2 and one line: "twin: <what> cannot be served: <why>. <remedy>."
[[noreturn]] void refuse(const char* what, const char* why, const char* remedy);

// Ends the program with status 2 and a line of its own words, for faults that are no refusal.
[[noreturn]] void fail(const std::string& message);

// Whether this is a child that fork() made and that has not called exec(): it has no drive.
bool forked();

// Whether the program is fio, whatever its file is called.
bool is_fio();

// A name as it may stand in a line for the user: without control characters, and not too long.
std::string printable(const char* name);

// What the timeline asks the drive; kept in drive_file.cc.
Nanoseconds drive_next_event();
void drive_advance(Nanoseconds until);
// Whether there is a drive yet.
bool drive_in_use();
// Whether a request has been made.
bool drive_was_asked();
// Writes what is left of the counters' series.
void finish_recording();

// Something has been written to a descriptor: who waits for one looks again.
void look_at_descriptors_again();

// A descriptor is closed: it may have been a timer's.
void forget_timer(int descriptor);

// Charges processor time to the calling virtual thread and lets the time pass.
void spend(Nanoseconds cpu_ns);

// A new thread of the program: called before it is made; the result goes to its trampoline.
VirtualThread& expect_thread();

// What a call that sleeps costs its thread.
inline constexpr Nanoseconds kSleepCall = kMicrosecond;

// A second thread begins to use the drive: from here on all share a processor, where a turn is handed over fastest.
void share_one_processor();

}  // namespace twin
