// The guest as processes of the host: starts, confines and ends them, and removes their files.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>

#include "linux/plan.h"

namespace twin {

// The folder of a run in the host's file system, and a keeper process that removes it.
//
// The keeper waits until this process ends, for any reason, SIGKILL included. Then it ends the guest and removes the
// folder. If the keeper is killed too, the guest ends all the same, and the next workplace of the same user removes the
// folder.
class Workplace {
 public:
  // Removes abandoned folders, and creates a folder owned by the plan's user. Throws std::runtime_error.
  explicit Workplace(const Plan& plan);
  // Ends the guest and removes the folder.
  ~Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] std::string path(const char* name) const { return folder_ + "/" + name; }

  // Makes the keeper end this process group when this process ends.
  void guard(pid_t group) const;

 private:
  std::string folder_;
  pid_t keeper_ = -1;
  int life_ = -1;  // closed when this process ends
  int lock_ = -1;  // locks the folder while this process or the keeper exists
};

// Starts the kernel in a new process group and returns the number of the group. Its processes may read the host's
// files, and write only in the workplace and in the plan's folder. Throws std::runtime_error.
pid_t start_guest(const Plan& plan, const Workplace& workplace);

// Installs handlers that end the guest's process group on SIGINT, SIGTERM and SIGHUP, after `wall_limit_s` seconds of
// wall time, and when its kernel has ended.
void end_on_signals(pid_t group, std::int64_t wall_limit_s);

// Returns the signal that ended the guest (SIGALRM for the wall limit), or 0 if no signal ended the guest.
int ending_signal();

}  // namespace twin
