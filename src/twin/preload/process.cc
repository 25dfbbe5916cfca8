// The threads, the clock, and how the program ends when something cannot be served.
#include "preload/process.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "preload/drive_file.h"
#include "preload/output_check.h"
#include "preload/real.h"
#include "preload/timers.h"

namespace twin {

thread_local VirtualThread* self __attribute__((tls_model("initial-exec"))) = nullptr;
bool signal_due = false;

namespace {

bool forked_child = false;
bool had_threads = false;
bool other_file_measured = false;
std::uint64_t seed = 0;

[[noreturn]] void stuck() {
  fail(
      "every thread of the program waits for another one, in a way that cannot be served. Served are waits through"
      " pthreads, semaphores, sleeps, timers, select() and poll()");
}

// Storage of the timeline. It is never destroyed, because threads may run until the process ends.
union TimelineHome {
  TimelineHome() {}
  ~TimelineHome() {}
  Timeline timeline;
} home;

// Limits on the running thread while other threads wait for their turn: how long it may block in a call that is not
// interposed, and how long it may compute without reading the clock.
constexpr int kPatienceSeconds = 30;
constexpr int kComputingSeconds = 120;

// The clock of a thread's processor time, as Linux numbers them (CPUCLOCK_PERTHREAD and CPUCLOCK_SCHED).
clockid_t processor_clock(pid_t thread) { return static_cast<clockid_t>(~static_cast<unsigned>(thread) << 3 | 6U); }

void* watch(void*) {
  std::uint64_t turns = 0;
  std::int64_t cpu_ns = -1;
  int waited_seconds = 0;
  int held_seconds = 0;
  for (;;) {
    timespec second{1, 0};
    TWIN_REAL(nanosleep)(&second, nullptr);
    const VirtualThread* running = timeline().running();
    const pid_t thread = running == nullptr ? 0 : running->kernel_thread();
    timespec used{};
    // uses the kernel's thread number: pthread_getcpuclockid() must not be called for a thread that may have ended
    if (thread == 0 || TWIN_REAL(clock_gettime)(processor_clock(thread), &used) != 0) continue;
    const Nanoseconds now_ns = to_ns(used);
    const bool turned = timeline().turns() != turns;
    held_seconds = turned ? 0 : held_seconds + 1;
    waited_seconds = turned || now_ns != cpu_ns ? 0 : waited_seconds + 1;
    turns = timeline().turns();
    cpu_ns = now_ns;
    if ((timeline().size() > 1 || next_timer() != kNever) &&
        (waited_seconds >= kPatienceSeconds || held_seconds >= kComputingSeconds)) {
      fail(
          "a thread of the program keeps all others and its timers waiting: it waits in a way that cannot be served, or"
          " never looks at the time. For fio: no idle-prof, no gtod_cpu");
    }
  }
  return nullptr;
}

void after_fork_in_child() {
  forked_child = true;
  forget_signal_timers();
  if (self != nullptr) timeline().forget_others(*self);
}

// Whether the program has waited for another process, which may have used the drive.
bool had_children() {
  rusage usage;
  return TWIN_REAL(getrusage)(RUSAGE_CHILDREN, &usage) == 0 && usage.ru_minflt > 0;
}

// Runs when the program exits by itself. Fails if it measured something else than the drive. Fails if its output is
// incomplete. Also fails if fio ran jobs that made no request: fio then exits with status 0, and its output looks like
// a measurement. A fio without threads has run no job; it has printed its version or its help.
void check_end(int status, void*) {
  if (self == nullptr || forked_child || status != 0) return;
  check_output();
  if (other_file_measured && !drive_was_asked() && !had_children()) {
    fflush(nullptr);
    fail(
        "the program measured files that are not on the drive, in virtual time, so its figures say nothing. Give it"
        " {drive} as the file. A program that needs a file system runs with `twin linux`");
  }
  if (!had_threads || drive_was_asked() || !is_fio()) return;
  fflush(nullptr);  // fail() does not write what stdio has buffered
  fail(
      "fio ran, but made no request on the drive, so its figures say nothing. Give its jobs {drive} as the file, and"
      " something to read, write or trim there");
}

// glibc calls constructors with the program's arguments.
__attribute__((constructor)) void set_up(int count, char** words, char**) {
  if (drive_path() == nullptr) return;  // without a drive every call goes to the original function
  new (&home.timeline) Timeline(events(), &stuck);
  self = &home.timeline.start(kMonotonicStart);
  self->thread = pthread_self();
  find_drive_seed(count, words);
  pthread_atfork(nullptr, nullptr, &after_fork_in_child);
  on_exit(&check_end, nullptr);
  set_up_output_check();
}

__attribute__((destructor)) void tear_down() {
  if (self != nullptr && !forked_child) finish_recording();
}

}  // namespace

Timeline& timeline() { return home.timeline; }

bool forked() { return forked_child; }

void begin_execution() {
  forked_child = false;
  self->has_forked();
}

void end_execution(int status) {
  check_end(status, nullptr);
  fflush(nullptr);
  tear_down();
  _exit(status);
}

std::uint64_t drive_seed() { return seed; }

void find_drive_seed(int count, const char* const* words) {
  constexpr const char* kWord = "--randseed=";
  for (int i = 1; i < count; ++i) {
    if (strncmp(words[i], kWord, strlen(kWord)) == 0) seed = strtoull(words[i] + strlen(kWord), nullptr, 10);
  }
}

bool is_fio() {
  // fio exports its functions for I/O engines in separate libraries
  static const bool found =
      strcmp(program_invocation_short_name, "fio") == 0 || dlsym(RTLD_DEFAULT, "fio_options_parse") != nullptr;
  return found;
}

void measures_other_file() { other_file_measured = true; }

std::string printable(const char* name) {
  constexpr std::size_t kMost = 300;
  std::string text;
  for (; *name != '\0' && text.size() < kMost; ++name) {
    const auto byte = static_cast<unsigned char>(*name);
    text += byte < 0x20 || byte == 0x7f ? '?' : *name;
  }
  if (*name != '\0') text += "...";
  return text;
}

void refuse(const char* what, const char* why, const char* remedy) {
  fail(std::string(what) + " cannot be served: " + why + ". " + remedy + ".");
}

void fail(const std::string& message) {
  const std::string text = "twin: error: " + message + "\n";
  const ssize_t written = TWIN_REAL(write)(STDERR_FILENO, text.data(), text.size());
  static_cast<void>(written);
  _exit(2);
}

void spend(Nanoseconds cpu_ns) {
  self->cpu_ns += cpu_ns;
  timeline().advance(*self, cpu_ns);
  if (signal_due) [[unlikely]]
    deliver_signals();
}

Wait wait_interruptibly(const void* key, Nanoseconds until) {
  for (;;) {
    self->interruptible = true;
    const bool woken = timeline().wait(*self, key, until);
    self->interruptible = false;
    const bool sent = signal_due && timeline().is_first(*self);
    const bool handled = sent && deliver_signals();
    if (handled && !woken) return Wait::kInterrupted;
    if (woken || sent) return Wait::kWoken;
    if (self->now() >= until) return Wait::kTimeUp;
  }
}

void begin_watching() {
  static bool watching = false;
  if (watching) return;
  watching = true;
  pthread_t watcher;
  if (TWIN_REAL(pthread_create)(&watcher, nullptr, &watch, nullptr) == 0) pthread_detach(watcher);
}

VirtualThread& expect_thread() {
  begin_watching();
  had_threads = true;
  return timeline().add();
}

}  // namespace twin
