// The guest as processes of the host: how it is started, held in, ended, and cleaned up after.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>

#include "linux/plan.h"

namespace twin {

// Everything of a run that lies in the host's file system, and the one process that removes it. That process does
// nothing but wait for this one to end, in whatever way, SIGKILL included; then it ends the guest and removes the
// folder.
class Workplace {
 public:
  // Makes a folder that belongs to the plan's user. Throws std::runtime_error.
  explicit Workplace(const Plan& plan);
  // Ends the guest and removes the folder.
  ~Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] std::string path(const char* name) const { return folder_ + "/" + name; }

  // From now on this group of processes ends with this process.
  void guard(pid_t group) const;

 private:
  std::string folder_;
  pid_t keeper_ = -1;
  int life_ = -1;  // closed when this process ends
};

// Starts the kernel as a process group of its own and returns its number. In this group all are held to reading the
// host's files and writing in the workplace and in the plan's folder. Throws std::runtime_error.
pid_t start_guest(const Plan& plan, const Workplace& workplace);

// Ends the guest's group at SIGINT, SIGTERM and SIGHUP, when the wall limit is reached, and when its kernel has ended.
void end_on_signals(pid_t group, std::int64_t wall_limit_s);

// The signal at which the guest was ended, SIGALRM for the wall limit; 0 when it was not ended by one.
int ending_signal();

}  // namespace twin
