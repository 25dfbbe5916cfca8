// The program that is run on the drive: its threads on the virtual timeline, and how it ends.
#pragma once

#include <cstdint>
#include <string>

#include "clock/timeline.h"
#include "core/units.h"

namespace twin {

// Virtual time begins here: an uptime of 1000 s, and 2020-01-07 00:00:00 UTC on the calendar.
inline constexpr Nanoseconds kMonotonicStart = 1000 * kSecond;
inline constexpr Nanoseconds kRealtimeStart = 1'578'355'200LL * kSecond;

// The calling thread. It is nullptr in the watchdog, which is no thread of the program, and before the library is set
// up.
extern thread_local VirtualThread* self __attribute__((tls_model("initial-exec")));

Timeline& timeline();

// Ends the program with status 2 and one line: "twin: error: <what> cannot be served: <why>. <remedy>."
[[noreturn]] void refuse(const char* what, const char* why, const char* remedy);

// Ends the program with status 2 and one line, "twin: error: <message>", for faults other than a refusal.
[[noreturn]] void fail(const std::string& message);

// Whether this is a child that fork() made and that has not called exec(): it has no drive.
bool forked();

// Call in a forked child that is to be the program, drive and all: nothing of the program had run when it was forked.
void begin_execution();
// Ends it as exit() would, except that no function of another library is called.
[[noreturn]] void end_execution(int status);

// What is left to chance in the drive follows from this: the program's word --randseed=N, the seed by which fio draws
// its offsets; 0 without it. Call the second with the words that the program is started with.
std::uint64_t drive_seed();
void find_drive_seed(int count, const char* const* words);

// Whether the program is fio, whatever its file is called.
bool is_fio();

// Makes a name fit for a message: replaces control characters, and shortens it if it is too long.
std::string printable(const char* name);

// The drive as the timeline's source of events; these functions are in drive_file.cc.
Nanoseconds drive_next_event();
void drive_advance(Nanoseconds until);
// Whether the drive has been created, which happens on its first use.
bool drive_in_use();
// Whether the drive has been sent a request.
bool drive_was_asked();
// Writes the final counters: their totals, and what is left of their series.
void finish_recording();

// Call after a write to a descriptor: threads that wait for descriptors check them again.
void look_at_descriptors_again();

// Call when a descriptor is closed, because it may be that of a timer.
void forget_timer(int descriptor);

// Charges processor time to the calling virtual thread, whose clock advances by as much.
void spend(Nanoseconds cpu_ns);

// Call before creating a thread of the program. The new thread starts with the result as its `self`.
VirtualThread& expect_thread();

// Processor time of a call that sleeps.
inline constexpr Nanoseconds kSleepCall = kMicrosecond;

}  // namespace twin
