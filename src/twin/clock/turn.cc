// Switching of stacks and thread pointers on x86-64; one futex for each thread on other processors.
#include "clock/turn.h"

#include <linux/futex.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

// For code that a sleeping home runs. ThreadSanitizer identifies a thread by its thread pointer, and must not see a
// home use the thread pointer of its thread, which runs on the carrier.
#define TWIN_NOT_SANITIZED __attribute__((no_sanitize("address", "thread", "undefined")))

namespace twin {
namespace {

// Makes a system call without the C library. The preload library may interpose syscall(), and the C library's syscall()
// would set the errno of a thread that another kernel thread may be running.
TWIN_NOT_SANITIZED long system_call(long number, long a, long b, long c, long d) {
#if defined(__x86_64__)
  long result;
  register long fourth asm("r10") = d;
  asm volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c), "r"(fourth) : "rcx", "r11", "memory");
  return result;
#else
  return syscall(number, a, b, c, d);
#endif
}

TWIN_NOT_SANITIZED void wait_until_set(std::atomic<std::uint32_t>& word) {
  while (word.load(std::memory_order_acquire) == 0) {
    system_call(SYS_futex, reinterpret_cast<long>(&word), FUTEX_WAIT_PRIVATE, 0, 0);
  }
}

TWIN_NOT_SANITIZED void set_and_wake(std::atomic<std::uint32_t>& word) {
  word.store(1, std::memory_order_release);
  system_call(SYS_futex, reinterpret_cast<long>(&word), FUTEX_WAKE_PRIVATE, 1, 0);
}

#if defined(__x86_64__)

constexpr std::size_t kSleepingStackBytes = 16384;
constexpr unsigned long kFsGsBase = 2;  // HWCAP2_FSGSBASE: user programs may set the thread pointer

bool switches_stacks() {
  static const bool can = (getauxval(AT_HWCAP2) & kFsGsBase) != 0;
  return can;
}

unsigned long own_thread_pointer() {
  unsigned long base;
  asm("rdfsbase %0" : "=r"(base));
  return base;
}

// Saves the registers that a function must preserve on the stack, and the stack pointer in *from. Continues on stack
// `to`, where another thread has saved its registers or a function is to begin, and returns the message there.
__attribute__((naked, noinline)) Turn* switch_stack(void** /* from, rdi */, void* /* to, rsi */,
                                                    unsigned long /* thread pointer, rdx */, Turn* /* message, rcx */) {
  asm(R"(
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    subq $8, %rsp
    stmxcsr (%rsp)
    fnstcw 4(%rsp)
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    wrfsbase %rdx
    ldmxcsr (%rsp)
    fldcw 4(%rsp)
    addq $8, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    movq %rcx, %rdi
    movq %rcx, %rax
    ret
  )");
}

// Prepares a stack on which switch_stack() continues at the beginning of a function. Returns its stack pointer.
void* stack_that_begins(std::byte* bottom, std::size_t size, void (*function)(Turn*)) {
  auto* top = reinterpret_cast<void**>((reinterpret_cast<std::uintptr_t>(bottom) + size) / 16 * 16);
  *--top = nullptr;                            // return address of the function; also aligns the stack
  *--top = reinterpret_cast<void*>(function);  // return address of switch_stack()
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  --top;
  asm volatile("stmxcsr (%0)\n\tfnstcw 4(%0)" : : "r"(top) : "memory");
  return static_cast<void*>(top);
}

#else

constexpr std::size_t kSleepingStackBytes = 0;
bool switches_stacks() { return false; }
unsigned long own_thread_pointer() { return 0; }
Turn* switch_stack(void**, void*, unsigned long, Turn*) { return nullptr; }
void* stack_that_begins(std::byte*, std::size_t, void (*)(Turn*)) { return nullptr; }

#endif

constexpr std::size_t kMaskBytes = 8;  // size of the kernel's signal mask

}  // namespace

void Turn::start() {
  home_ = gettid();
  runs_on_.store(home_, std::memory_order_relaxed);
  if (switches_stacks()) thread_pointer_ = own_thread_pointer();
  parked_.store(1, std::memory_order_relaxed);  // its registers are saved whenever another thread has the turn
}

void Turn::wait_for_first() {
  home_ = gettid();
  if (!switches_stacks()) {
    runs_on_.store(home_, std::memory_order_relaxed);
    take();
    return;
  }
  // the carrier handles all signals
  const std::uint64_t all = ~std::uint64_t{0};
  system_call(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, reinterpret_cast<long>(&all),
              reinterpret_cast<long>(&signal_mask_), kMaskBytes);
  thread_pointer_ = own_thread_pointer();
  sleeping_stack_ = std::make_unique<std::byte[]>(kSleepingStackBytes);
  given_.store(0, std::memory_order_release);  // ordered before the first hand-over to this thread
  void* const begin = stack_that_begins(sleeping_stack_.get(), kSleepingStackBytes, &sleep_until_called);
  arrive(switch_stack(&stack_, begin, thread_pointer_, this));
}

// Runs at home, on the small stack, until the home is called.
TWIN_NOT_SANITIZED void Turn::sleep_until_called(Turn* self) {
  set_and_wake(self->parked_);
  wait_until_set(self->called_);
  system_call(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, reinterpret_cast<long>(&self->signal_mask_), 0, kMaskBytes);
  void* left = nullptr;
  switch_stack(&left, self->stack_, self->thread_pointer_, nullptr);
}

// Called first on the stack of a thread that gets the turn or comes home. `left` is the thread that has left on the
// carrier, if any: its home can continue it now, because the carrier no longer uses its stack.
void Turn::arrive(Turn* left) {
  if (left != nullptr) set_and_wake(left->called_);
  given_.load(std::memory_order_acquire);  // ordered after the actions of the previous thread
}

// Waits for the turn at home, for processors that do not switch stacks.
void Turn::take() {
  wait_until_set(given_);
  parked_.load(std::memory_order_acquire);  // ordered after the actions of the previous thread
  given_.store(0, std::memory_order_relaxed);
}

// Waits until the home of `next` sleeps and its registers are saved.
void Turn::wait_until_parked(Turn& next) {
  wait_until_set(next.parked_);
  next.given_.load(std::memory_order_acquire);
}

void Turn::hand_to(Turn& next) {
  if (!switches_stacks()) {
    next.parked_.store(1, std::memory_order_release);
    set_and_wake(next.given_);
    take();
    return;
  }
  wait_until_parked(next);
  next.runs_on_.store(kernel_thread(), std::memory_order_relaxed);
  next.given_.store(1, std::memory_order_release);
  arrive(switch_stack(&stack_, next.stack_, next.thread_pointer_, nullptr));
}

void Turn::leave_to(Turn& next) {
  if (!switches_stacks()) {
    next.parked_.store(1, std::memory_order_release);
    set_and_wake(next.given_);
    return;
  }
  wait_until_parked(next);
  next.given_.store(1, std::memory_order_release);
  if (kernel_thread() == home_) {  // the carrier ends, and the home of `next` becomes the carrier
    next.runs_on_.store(next.home_, std::memory_order_relaxed);
    set_and_wake(next.called_);
    return;
  }
  next.runs_on_.store(kernel_thread(), std::memory_order_relaxed);
  arrive(switch_stack(&stack_, next.stack_, next.thread_pointer_, this));
}

}  // namespace twin
