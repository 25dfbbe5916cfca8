// Processor times of the guest's programs.
#include "linux/program_watch.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

namespace twin {
namespace {

// Returns the processor time of a process, or -1 if there is no such process.
Nanoseconds processor_time(pid_t process) {
  clockid_t clock = 0;
  timespec time{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) return -1;
  return time.tv_sec * kSecond + time.tv_nsec;
}

}  // namespace

void ProgramWatch::look(Calendar& calendar) {
  const Calendar::Program program = calendar.program();
  const auto process = static_cast<pid_t>(program.process);
  if (process <= 0 || getpgid(process) != group_) return;
  const Nanoseconds used = processor_time(process);
  if (used < 0) return;
  if (program.runs != runs_) {
    if (calendar.work().loops != loops_) loop_process_ = process;
    loops_ = calendar.work().loops;
    runs_ = program.runs;
    begun_ = used;
    next_ = process == loop_process_ ? kFirstLookAfterLoop : kFirstLook;
    return;
  }
  const bool too_long = used - begun_ >= (process == forced_process_ ? kFirstLook : kMostProcessorTime);
  if (!too_long && used - begun_ < next_) return;
  next_ *= 2;
  if (too_long) {
    calendar.force();
    forced_process_ = process;
    ++forced_;
  }
  kill(process, SIGALRM);
}

}  // namespace twin
