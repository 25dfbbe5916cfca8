// Makes programs of the guest give way that run for long without a system call or a page fault.
//
// Time stands still while a program runs, so a program that waits in a loop for a change of memory would wait for ever.
// After some processor time without a system call, this class sends SIGALRM to the program's process. The guest's
// kernel (src/kernel/program-time.patch) then looks whether the program is in an endless loop: whether all its
// registers and all its memory return to earlier values. If they do, the program gives way at a place that depends on
// the loop alone, and the run remains repeatable. The kernel cannot recognise a loop that counts its turns. Such a
// program gives way after kMostProcessorTime, and the run is not repeatable.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "core/units.h"
#include "linux/calendar.h"

namespace twin {

class ProgramWatch {
 public:
  static constexpr Nanoseconds kMostProcessorTime = 5 * kSecond;

  // `group` is the guest's process group. Processes of other groups get no signal.
  explicit ProgramWatch(pid_t group) : group_(group) {}

  // Examines the program that runs at present. Call from time to time while the guest sends no message.
  void look(Calendar& calendar);

  // Returns how often a program had to give way because of the host's clock.
  [[nodiscard]] std::uint64_t forced() const { return forced_; }

 private:
  // Searching a loop takes up to a tenth of a second, so programs that compute should seldom be examined.
  static constexpr Nanoseconds kFirstLook = 200 * kMillisecond;
  static constexpr Nanoseconds kFirstLookAfterLoop = 20 * kMillisecond;

  pid_t group_;
  std::uint64_t runs_ = 0;
  std::uint64_t loops_ = 0;
  std::uint64_t forced_ = 0;
  pid_t loop_process_ = 0;    // the process that was last in an endless loop
  pid_t forced_process_ = 0;  // the process that was last forced to give way
  Nanoseconds begun_ = 0;     // the processor time of the process at the first look since it began to run
  Nanoseconds next_ = 0;      // the processor time since then after which the kernel examines the process
};

}  // namespace twin
