// Keeps fio loaded between the repetitions of a cell, because loading fio and its libraries takes longer than a
// repetition.
//
// If TWIN_EXECUTIONS names a descriptor, fio does not start when its libraries are set up. It waits for command lines
// on this descriptor, a socket (SOCK_SEQPACKET). Each message is a command line: the arguments after fio's own name,
// each ended by a zero byte. For each message this process forks a process that runs fio with these arguments, waits
// for its end, and sends the wait status, an int. It ends when the other side closes the socket. A forked process dies
// with the process that forked it.
//
// The fork comes before the program's own constructors, because fio's constructors create locks in memory that
// forked processes share.
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

// The native tests are linked with this library and start as any other program.
#ifndef TWIN_HIDDEN

namespace twin {
namespace {

constexpr const char* kDescriptor = "TWIN_EXECUTIONS";
constexpr std::size_t kMostBytes = 131072;

using Main = int (*)(int, char**, char**);
Main program_main = nullptr;

// Replaces main() in a forked process. It skips the exit handlers of the libraries, which take longer than the rest of
// the program's end.
int run_and_end(int argc, char** argv, char** environment) { end_execution(program_main(argc, argv, environment)); }

// Receives the next message and returns its size; 0 if the other side has closed the socket.
std::size_t receive(int channel, char* message) {
  ssize_t size = -1;
  do {
    // MSG_TRUNC: returns the full size of a message that is too long
    size = recv(channel, message, kMostBytes, MSG_TRUNC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) fail("no command line from " + std::string(kDescriptor) + ": " + strerror(errno));
  const auto bytes = static_cast<std::size_t>(size);
  if (bytes > kMostBytes) fail("a command line of " + std::to_string(bytes) + " bytes is too long");
  if (bytes != 0 && message[bytes - 1] != '\0') fail("a command line does not end with a zero byte");
  return bytes;
}

struct Arguments {
  int count;
  char** words;
};

// Forks a process for each command line, and returns in this process with the arguments of its program. Never returns
// in the calling process.
Arguments next_execution(int channel, int argc, char** argv) {
  static char message[kMostBytes];
  const pid_t here = getpid();
  while (const std::size_t size = receive(channel, message)) {
    const pid_t child = TWIN_REAL(fork)();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != here) _exit(1);  // the parent ended before prctl()
      TWIN_REAL(close)(channel);
      begin_execution();
      // as the kernel lays them out: arguments, then environment; never deleted, because programs keep pointers to them
      auto& all = *new std::vector<char*>(argv, argv + argc);
      for (std::size_t at = 0; at < size; at += strlen(message + at) + 1) all.push_back(message + at);
      const auto count = static_cast<int>(all.size());
      all.push_back(nullptr);
      for (char** variable = environ; *variable != nullptr; ++variable) all.push_back(*variable);
      all.push_back(nullptr);
      return {count, all.data()};
    }
    if (child < 0) fail(std::string("no process for an execution: ") + strerror(errno));
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
      if (errno != EINTR) fail(std::string("waiting for an execution: ") + strerror(errno));
    }
    if (send(channel, &status, sizeof status, MSG_NOSIGNAL) < 0) break;
  }
  _exit(0);  // no exit handlers: they belong to the forked processes
}

}  // namespace
}  // namespace twin

extern "C" int __libc_start_main(twin::Main program, int argc, char** argv, void (*init)(), void (*fini)(),
                                 void (*rtld_fini)(), void* stack_end);

// The program's entry point calls this function after all libraries are set up.
TWIN_EXPORT int __libc_start_main(twin::Main program, int argc, char** argv, void (*init)(), void (*fini)(),
                                  void (*rtld_fini)(), void* stack_end) {
  const char* const channel = getenv(twin::kDescriptor);
  if (twin::self != nullptr && channel != nullptr && twin::is_fio()) {
    const auto descriptor = static_cast<int>(strtol(channel, nullptr, 10));
    unsetenv(twin::kDescriptor);
    const twin::Arguments arguments = twin::next_execution(descriptor, argc, argv);
    argc = arguments.count;
    argv = arguments.words;
    twin::find_drive_seed(argc, argv);
    twin::program_main = program;
    program = &twin::run_and_end;
  }
  return TWIN_REAL(__libc_start_main)(program, argc, argv, init, fini, rtld_fini, stack_end);
}

#endif
