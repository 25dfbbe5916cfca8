// A library for LD_PRELOAD into the guest's kernel, which is a program of the host. It replaces three system calls:
// getrandom(), so that runs are repeatable, and clone() and ptrace(), so that no process outlives the kernel. If
// programs of the guest are charged, they do not read the processor's time stamp counter: an attempt is a signal to the
// kernel.
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

std::uint64_t state = 0;
bool traps_counters = false;

// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
std::uint64_t next_random() {
  state += 0x9e3779b97f4a7c15U;
  std::uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31U);
}

__attribute__((constructor)) void set_up() {
  const char* const seed = std::getenv("TWIN_SEED");
  state = seed == nullptr ? 0 : std::strtoull(seed, nullptr, 10);
  traps_counters = std::getenv("TWIN_TRAP_COUNTER") != nullptr;
}

// What a new process is to run, and the process that made it.
struct alignas(16) Start {
  int (*function)(void*);
  void* argument;
  pid_t parent;
  bool traps_counter;
};

// Runs in the new process.
int run_until_parent_ends(void* of) {
  const Start start = *static_cast<const Start*>(of);
  // the parent may have ended before this call
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != start.parent) _exit(1);
  if (start.traps_counter) prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
  return start.function(start.argument);
}

}  // namespace

extern "C" {

// The kernel has processes that serve its console and its timers and wait for it for ever. They end with their parent.
__attribute__((visibility("default"))) int clone(int (*function)(void*), void* stack, int flags, void* argument,
                                                 ...) noexcept {
  va_list rest;
  va_start(rest, argument);
  auto* const parent_id = va_arg(rest, pid_t*);
  auto* const storage = va_arg(rest, void*);
  auto* const child_id = va_arg(rest, pid_t*);
  va_end(rest);
  static const auto real = reinterpret_cast<int (*)(int (*)(void*), void*, int, void*, ...)>(dlsym(RTLD_NEXT, "clone"));
  // at the top of the new process's stack, which exists as long as this process needs it; processes with memory of
  // their own run programs
  const std::uintptr_t top = reinterpret_cast<std::uintptr_t>(stack) & ~std::uintptr_t{15};
  auto* const start = new (reinterpret_cast<void*>(top - sizeof(Start)))
      Start{function, argument, getpid(), traps_counters && (flags & CLONE_VM) == 0};
  return real(&run_until_parent_ends, start, flags, start, parent_id, storage, child_id);
}

// The guest's kernel seeds its random numbers with this call.
__attribute__((visibility("default"))) ssize_t getrandom(void* to, std::size_t size_bytes, unsigned) {
  auto* const bytes = static_cast<unsigned char*>(to);
  for (std::size_t i = 0; i < size_bytes; ++i) bytes[i] = static_cast<unsigned char>(next_random());
  return static_cast<ssize_t>(size_bytes);
}

// The guest's processes are traced processes of the host, so their system calls never reach the host. If the kernel
// ended before them, they would continue untraced, with real system calls. PTRACE_O_EXITKILL ends them with the kernel.
__attribute__((visibility("default"))) long ptrace(__ptrace_request request, ...) noexcept {
  va_list rest;
  va_start(rest, request);
  const auto process = va_arg(rest, pid_t);
  auto* const address = va_arg(rest, void*);
  auto* data = va_arg(rest, char*);
  va_end(rest);
  static const auto real = reinterpret_cast<long (*)(__ptrace_request, ...)>(dlsym(RTLD_NEXT, "ptrace"));
  if (request == PTRACE_SETOPTIONS || static_cast<int>(request) == 21 /* PTRACE_OLDSETOPTIONS */) {
    request = PTRACE_SETOPTIONS;
    data = reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(data) | PTRACE_O_EXITKILL);
  }
  return real(request, process, address, data);
}

}  // extern "C"
