// Keeps fio loaded between the executions of a cell: loading it with its libraries takes longer than an execution.
//
// Where TWIN_EXECUTIONS names a descriptor, fio does not start when its libraries are set up. It waits for command
// lines from a socket (SOCK_SEQPACKET), one a message: the words after fio's own name, each ended by a zero byte. For
// each it forks a process that starts with these words, waits for its end, and answers with its wait status, an int. It
// ends when the other side closes the socket. Each execution dies with the process that forked it.
//
// The fork comes before the program's own constructors. Those of fio make locks in memory that forked processes share.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "preload/process.h"
#include "preload/real.h"

// The native tests have this library in their program, which starts as any other does.
#ifndef TWIN_HIDDEN

namespace twin {
namespace {

constexpr const char* kDescriptor = "TWIN_EXECUTIONS";
constexpr std::size_t kMostBytes = 131072;

using Main = int (*)(int, char**, char**);
Main program_main = nullptr;

// Takes the place of main() in an execution. What the libraries would undo at the end of a program is left out, for it
// takes longer than all else that happens there.
int run_and_end(int argc, char** argv, char** environment) { end_execution(program_main(argc, argv, environment)); }

// Returns the size of the next message, 0 when there will be none.
std::size_t receive(int channel, char* message) {
  ssize_t size = -1;
  do {
    // MSG_TRUNC: the size that the message really has
    size = recv(channel, message, kMostBytes, MSG_TRUNC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) fail("no command line from " + std::string(kDescriptor) + ": " + strerror(errno));
  const auto bytes = static_cast<std::size_t>(size);
  if (bytes > kMostBytes) fail("a command line of " + std::to_string(bytes) + " bytes is too long");
  if (bytes != 0 && message[bytes - 1] != '\0') fail("a command line does not end with a zero byte");
  return bytes;
}

// What a program is started with, in one piece as the kernel lays it out: its words, and behind them the environment.
class Start {
 public:
  Start(int argc, char** argv) : all_(argv, argv + argc) {}

  void add_words(char* message, std::size_t size) {
    for (std::size_t at = 0; at < size; at += strlen(message + at) + 1) all_.push_back(message + at);
  }

  // Returns the words; call it last.
  char** words() {
    count_ = static_cast<int>(all_.size());
    all_.push_back(nullptr);
    for (char** variable = environ; *variable != nullptr; ++variable) all_.push_back(*variable);
    all_.push_back(nullptr);
    return all_.data();
  }

  [[nodiscard]] int count() const { return count_; }

 private:
  std::vector<char*> all_;
  int count_ = 0;
};

// Returns in a new process for each execution that is asked for, with what that is to be started with; in the process
// that it is called in it never does.
Start* next_execution(int channel, int argc, char** argv) {
  static char message[kMostBytes];
  const pid_t here = getpid();
  while (const std::size_t size = receive(channel, message)) {
    const pid_t child = TWIN_REAL(fork)();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != here) _exit(1);  // it was killed before the kernel was asked
      TWIN_REAL(close)(channel);
      begin_execution();
      auto* const start = new Start(argc, argv);  // never deleted, because programs keep pointers to their words
      start->add_words(message, size);
      return start;
    }
    if (child < 0) fail(std::string("no process for an execution: ") + strerror(errno));
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
      if (errno != EINTR) fail(std::string("waiting for an execution: ") + strerror(errno));
    }
    if (send(channel, &status, sizeof status, MSG_NOSIGNAL) < 0) break;
  }
  _exit(0);  // what exit() would run belongs to executions
}

}  // namespace
}  // namespace twin

extern "C" int __libc_start_main(twin::Main program, int argc, char** argv, void (*init)(), void (*fini)(),
                                 void (*rtld_fini)(), void* stack_end);

// The program's entry point calls this once all libraries have been set up.
TWIN_EXPORT int __libc_start_main(twin::Main program, int argc, char** argv, void (*init)(), void (*fini)(),
                                  void (*rtld_fini)(), void* stack_end) {
  const char* const channel = getenv(twin::kDescriptor);
  if (twin::self != nullptr && channel != nullptr && twin::is_fio()) {
    const auto descriptor = static_cast<int>(strtol(channel, nullptr, 10));
    unsetenv(twin::kDescriptor);
    twin::Start* const start = twin::next_execution(descriptor, argc, argv);
    argv = start->words();
    argc = start->count();
    twin::find_drive_seed(argc, argv);
    twin::program_main = program;
    program = &twin::run_and_end;
  }
  return TWIN_REAL(__libc_start_main)(program, argc, argv, init, fini, rtld_fini, stack_end);
}

#endif
