// Threads and their synchronization: mutexes, condition variables, locks, barriers, semaphores and futexes.
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>

#include "preload/process.h"
#include "preload/real.h"
#include "preload/timers.h"

namespace twin {
namespace {

// The arguments of run(), the first function of a new thread.
struct Start {
  void* (*function)(void*);
  void* argument;
  VirtualThread* thread;
};

pthread_key_t end_key;
pthread_once_t end_key_made = PTHREAD_ONCE_INIT;

// The number of threads that wait for a mutex or lock. While it is 0, unlocking a mutex has no thread to wake.
unsigned lock_waiters = 0;

const void* key_of(pthread_t thread) { return reinterpret_cast<const void*>(thread); }

// Runs when a thread ends, whether it returns or calls pthread_exit().
void on_end(void*) {
  VirtualThread& ended = *self;
  timeline().wake_all(ended, key_of(ended.thread));
  self = nullptr;
  timeline().leave(ended);
}

void make_end_key() { pthread_key_create(&end_key, &on_end); }

void* run(void* memory) {
  const std::unique_ptr<Start> start(static_cast<Start*>(memory));
  self = start->thread;
  timeline().begin(*self);
  self->thread = pthread_self();
  pthread_setspecific(end_key, self);
  return start->function(start->argument);
}

// Takes a lock with `attempt`, which must not block; `key` is the key that unlocking wakes. Returns ETIMEDOUT if the
// lock is not free by `until`, in virtual time.
template <class Attempt>
int lock_by(const void* key, Nanoseconds until, Attempt attempt) {
  for (;;) {
    const int result = attempt();
    if (result != EBUSY) return result;
    if (self->now() >= until) return ETIMEDOUT;
    ++lock_waiters;
    wait_interruptibly(key, until);
    --lock_waiters;
  }
}

int lock(pthread_mutex_t* mutex, Nanoseconds until = kNever) {
  return lock_by(mutex, until, [mutex] { return TWIN_REAL(pthread_mutex_trylock)(mutex); });
}

int unlock(pthread_mutex_t* mutex) {
  const int result = TWIN_REAL(pthread_mutex_unlock)(mutex);
  if (lock_waiters > 0) timeline().wake_one(*self, mutex);
  return result;
}

// Waits on a condition variable. Returns ETIMEDOUT if it is not signalled by `until`, in virtual time. A signal of a
// timer ends the wait, too: POSIX allows such spurious wake-ups.
int wait_on(pthread_cond_t* condition, pthread_mutex_t* mutex, Nanoseconds until) {
  unlock(mutex);
  const Wait ended = wait_interruptibly(condition, until);
  lock(mutex);
  return ended == Wait::kTimeUp ? ETIMEDOUT : 0;
}

// Waits for the end of a thread. Returns EBUSY if it has not ended by `until`, in virtual time.
int wait_for_end(pthread_t thread, Nanoseconds until) {
  while (timeline().has(thread)) {
    if (self->now() >= until) return EBUSY;
    wait_interruptibly(key_of(thread), until);
  }
  return 0;
}

}  // namespace
}  // namespace twin

using twin::self;

TWIN_EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*),
                               void* argument) noexcept {
  if (self == nullptr) return TWIN_REAL(pthread_create)(thread, attributes, function, argument);
  pthread_once(&twin::end_key_made, &twin::make_end_key);
  twin::VirtualThread& added = twin::expect_thread();
  auto* start = new twin::Start{function, argument, &added};
  const int result = TWIN_REAL(pthread_create)(thread, attributes, &twin::run, start);
  if (result != 0) {
    delete start;
    twin::timeline().remove(added);
    return result;
  }
  added.thread = *thread;
  return 0;
}

TWIN_EXPORT int pthread_join(pthread_t thread, void** result) {
  if (self != nullptr) twin::wait_for_end(thread, twin::kNever);
  return TWIN_REAL(pthread_join)(thread, result);
}

TWIN_EXPORT int pthread_timedjoin_np(pthread_t thread, void** result, const timespec* time) {
  return pthread_clockjoin_np(thread, result, CLOCK_REALTIME, time);
}

TWIN_EXPORT int pthread_clockjoin_np(pthread_t thread, void** result, clockid_t clock, const timespec* time) {
  if (self == nullptr) return TWIN_REAL(pthread_clockjoin_np)(thread, result, clock, time);
  const twin::Nanoseconds until = time == nullptr ? twin::kNever : twin::deadline(clock, *time);
  if (twin::wait_for_end(thread, until) != 0) return ETIMEDOUT;
  return TWIN_REAL(pthread_join)(thread, result);
}

// A call that finds the thread still running takes time, so that a loop that polls for the thread's end terminates.
TWIN_EXPORT int pthread_tryjoin_np(pthread_t thread, void** result) noexcept {
  if (self == nullptr) return TWIN_REAL(pthread_tryjoin_np)(thread, result);
  if (twin::wait_for_end(thread, self->now()) != 0) {
    twin::spend(twin::kSleepCall);
    return EBUSY;
  }
  return TWIN_REAL(pthread_join)(thread, result);
}

TWIN_EXPORT int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  if (self == nullptr || twin::timeline().alone()) return TWIN_REAL(pthread_mutex_lock)(mutex);
  return twin::lock(mutex);
}

TWIN_EXPORT int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* time) noexcept {
  return pthread_mutex_clocklock(mutex, CLOCK_REALTIME, time);
}

TWIN_EXPORT int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* time) noexcept {
  if (self == nullptr) return TWIN_REAL(pthread_mutex_clocklock)(mutex, clock, time);
  return twin::lock(mutex, twin::deadline(clock, *time));
}

TWIN_EXPORT int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  return self == nullptr ? TWIN_REAL(pthread_mutex_unlock)(mutex) : twin::unlock(mutex);
}

TWIN_EXPORT int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  if (self == nullptr) return TWIN_REAL(pthread_cond_wait)(condition, mutex);
  return twin::wait_on(condition, mutex, twin::kNever);
}

// The clock of a condition variable cannot be read back. The time itself shows the clock: a time after kRealtimeStart
// is on the real-time clock, because the monotonic clock starts near 0.
TWIN_EXPORT int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* time) {
  if (self == nullptr) return TWIN_REAL(pthread_cond_timedwait)(condition, mutex, time);
  const bool realtime = twin::to_ns(*time) >= twin::kRealtimeStart;
  return twin::wait_on(condition, mutex, twin::deadline(realtime ? CLOCK_REALTIME : CLOCK_MONOTONIC, *time));
}

TWIN_EXPORT int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                       const timespec* time) {
  if (self == nullptr) return TWIN_REAL(pthread_cond_clockwait)(condition, mutex, clock, time);
  return twin::wait_on(condition, mutex, twin::deadline(clock, *time));
}

TWIN_EXPORT int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  if (self == nullptr) return TWIN_REAL(pthread_cond_signal)(condition);
  twin::timeline().wake_one(*self, condition);
  return 0;
}

TWIN_EXPORT int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  if (self == nullptr) return TWIN_REAL(pthread_cond_broadcast)(condition);
  twin::timeline().wake_all(*self, condition);
  return 0;
}

// ---- read-write locks and spin locks

namespace twin {
namespace {

const void* key_of(const pthread_spinlock_t* lock) { return const_cast<const int*>(lock); }

// Waits until the semaphore is posted. Returns -1 with errno set: ETIMEDOUT if it is not posted by `until`, EINTR if a
// signal of a timer ends the wait.
int wait_for_post(sem_t* semaphore, Nanoseconds until) {
  while (sem_trywait(semaphore) != 0) {
    if (errno != EAGAIN) return -1;
    const Wait ended = wait_interruptibly(semaphore, until);
    if (ended == Wait::kWoken) continue;
    errno = ended == Wait::kTimeUp ? ETIMEDOUT : EINTR;
    return -1;
  }
  return 0;
}

int lock_for_reading(pthread_rwlock_t* lock, Nanoseconds until) {
  return lock_by(lock, until, [lock] { return TWIN_REAL(pthread_rwlock_tryrdlock)(lock); });
}

int lock_for_writing(pthread_rwlock_t* lock, Nanoseconds until) {
  return lock_by(lock, until, [lock] { return TWIN_REAL(pthread_rwlock_trywrlock)(lock); });
}

// The number of threads that a barrier waits for cannot be read back, so pthread_barrier_init() stores it here.
struct Barrier {
  unsigned count = 0;
  unsigned arrived = 0;
};

// By the address of the barrier. Never destroyed, because threads may run until the process ends.
std::map<const void*, Barrier>& barriers() {
  static auto* const all = new std::map<const void*, Barrier>;
  return *all;
}

}  // namespace
}  // namespace twin

TWIN_EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  if (self == nullptr || twin::timeline().alone()) return TWIN_REAL(pthread_rwlock_rdlock)(lock);
  return twin::lock_for_reading(lock, twin::kNever);
}

TWIN_EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  if (self == nullptr || twin::timeline().alone()) return TWIN_REAL(pthread_rwlock_wrlock)(lock);
  return twin::lock_for_writing(lock, twin::kNever);
}

TWIN_EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t* __restrict lock,
                                           const timespec* __restrict time) noexcept {
  return pthread_rwlock_clockrdlock(lock, CLOCK_REALTIME, time);
}

TWIN_EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t* __restrict lock,
                                           const timespec* __restrict time) noexcept {
  return pthread_rwlock_clockwrlock(lock, CLOCK_REALTIME, time);
}

TWIN_EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t* __restrict lock, clockid_t clock,
                                           const timespec* __restrict time) noexcept {
  if (self == nullptr) return TWIN_REAL(pthread_rwlock_clockrdlock)(lock, clock, time);
  return twin::lock_for_reading(lock, twin::deadline(clock, *time));
}

TWIN_EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t* __restrict lock, clockid_t clock,
                                           const timespec* __restrict time) noexcept {
  if (self == nullptr) return TWIN_REAL(pthread_rwlock_clockwrlock)(lock, clock, time);
  return twin::lock_for_writing(lock, twin::deadline(clock, *time));
}

TWIN_EXPORT int pthread_rwlock_unlock(pthread_rwlock_t* lock) noexcept {
  const int result = TWIN_REAL(pthread_rwlock_unlock)(lock);
  if (self != nullptr) twin::timeline().wake_all(*self, lock);
  return result;
}

// Waits as for a mutex: a thread that spins would keep its turn for ever, and the lock would never be free.
TWIN_EXPORT int pthread_spin_lock(pthread_spinlock_t* lock) noexcept {
  if (self == nullptr || twin::timeline().alone()) return TWIN_REAL(pthread_spin_lock)(lock);
  return twin::lock_by(twin::key_of(lock), twin::kNever, [lock] { return pthread_spin_trylock(lock); });
}

TWIN_EXPORT int pthread_spin_unlock(pthread_spinlock_t* lock) noexcept {
  const int result = TWIN_REAL(pthread_spin_unlock)(lock);
  if (self != nullptr) twin::timeline().wake_one(*self, twin::key_of(lock));
  return result;
}

// ---- barriers

TWIN_EXPORT int pthread_barrier_init(pthread_barrier_t* __restrict barrier,
                                     const pthread_barrierattr_t* __restrict attributes, unsigned count) noexcept {
  const int result = TWIN_REAL(pthread_barrier_init)(barrier, attributes, count);
  if (result == 0 && self != nullptr) twin::barriers()[static_cast<const void*>(barrier)] = {count, 0};
  return result;
}

TWIN_EXPORT int pthread_barrier_destroy(pthread_barrier_t* barrier) noexcept {
  if (self != nullptr) twin::barriers().erase(barrier);
  return TWIN_REAL(pthread_barrier_destroy)(barrier);
}

TWIN_EXPORT int pthread_barrier_wait(pthread_barrier_t* barrier) noexcept {
  if (self == nullptr) return TWIN_REAL(pthread_barrier_wait)(barrier);
  const auto found = twin::barriers().find(barrier);
  if (found == twin::barriers().end()) return EINVAL;
  twin::Barrier& state = found->second;
  if (++state.arrived == state.count) {
    state.arrived = 0;
    twin::timeline().wake_all(*self, barrier);
    return PTHREAD_BARRIER_SERIAL_THREAD;
  }
  // does not use `state` after the wait: the last thread to arrive may destroy the barrier before the others run
  twin::timeline().wait(*self, barrier, twin::kNever);
  return 0;
}

// ---- semaphores

TWIN_EXPORT int sem_wait(sem_t* semaphore) {
  const bool blocks = self == nullptr || (twin::timeline().alone() && twin::next_timer() == twin::kNever);
  if (blocks) return TWIN_REAL(sem_wait)(semaphore);
  return twin::wait_for_post(semaphore, twin::kNever);
}

TWIN_EXPORT int sem_timedwait(sem_t* __restrict semaphore, const timespec* __restrict time) {
  return sem_clockwait(semaphore, CLOCK_REALTIME, time);
}

TWIN_EXPORT int sem_clockwait(sem_t* __restrict semaphore, clockid_t clock, const timespec* __restrict time) {
  if (self == nullptr) return TWIN_REAL(sem_clockwait)(semaphore, clock, time);
  return twin::wait_for_post(semaphore, twin::deadline(clock, *time));
}

TWIN_EXPORT int sem_post(sem_t* semaphore) noexcept {
  const int result = TWIN_REAL(sem_post)(semaphore);
  if (self != nullptr) twin::timeline().wake_one(*self, semaphore);
  return result;
}

// Accepted and ignored, because in virtual time it makes no difference on which processor a thread runs.
TWIN_EXPORT int sched_setaffinity(pid_t process, std::size_t size, const cpu_set_t* set) noexcept {
  return self == nullptr ? TWIN_REAL(sched_setaffinity)(process, size, set) : 0;
}

TWIN_EXPORT int pthread_setaffinity_np(pthread_t thread, std::size_t size, const cpu_set_t* set) noexcept {
  return self == nullptr ? TWIN_REAL(pthread_setaffinity_np)(thread, size, set) : 0;
}

TWIN_EXPORT pid_t fork() noexcept {
  if (self != nullptr && twin::is_fio()) {
    twin::refuse("a job in a process of its own", "jobs share virtual time within one process", "Add --thread=1");
  }
  return TWIN_REAL(fork)();
}

// ---- C11 threads. In glibc, mutexes and condition variables of C11 and of pthreads are the same objects.

namespace {

int c11_result(int error) {
  return error == 0 ? thrd_success : error == ETIMEDOUT ? thrd_timedout : error == EBUSY ? thrd_busy : thrd_error;
}

pthread_mutex_t* posix(mtx_t* mutex) { return reinterpret_cast<pthread_mutex_t*>(mutex); }
pthread_cond_t* posix(cnd_t* condition) { return reinterpret_cast<pthread_cond_t*>(condition); }

}  // namespace

TWIN_EXPORT int thrd_create(thrd_t* thread, thrd_start_t function, void* argument) {
  if (self == nullptr) return TWIN_REAL(thrd_create)(thread, function, argument);
  struct Call {
    thrd_start_t function;
    void* argument;
  };
  const auto start = [](void* memory) -> void* {
    const std::unique_ptr<Call> call(static_cast<Call*>(memory));
    return reinterpret_cast<void*>(static_cast<std::intptr_t>(call->function(call->argument)));
  };
  auto* const call = new Call{function, argument};
  const int error = pthread_create(thread, nullptr, start, call);
  if (error != 0) delete call;
  return error == EAGAIN ? thrd_nomem : c11_result(error);
}

TWIN_EXPORT int thrd_join(thrd_t thread, int* result) {
  void* returned = nullptr;
  const int error = pthread_join(thread, &returned);
  if (result != nullptr) *result = static_cast<int>(reinterpret_cast<std::intptr_t>(returned));
  return c11_result(error);
}

TWIN_EXPORT int mtx_lock(mtx_t* mutex) { return c11_result(pthread_mutex_lock(posix(mutex))); }

TWIN_EXPORT int mtx_timedlock(mtx_t* __restrict mutex, const timespec* __restrict time) {
  return c11_result(pthread_mutex_timedlock(posix(mutex), time));
}

TWIN_EXPORT int mtx_unlock(mtx_t* mutex) { return c11_result(pthread_mutex_unlock(posix(mutex))); }

TWIN_EXPORT int cnd_wait(cnd_t* condition, mtx_t* mutex) {
  return c11_result(pthread_cond_wait(posix(condition), posix(mutex)));
}

TWIN_EXPORT int cnd_timedwait(cnd_t* __restrict condition, mtx_t* __restrict mutex, const timespec* __restrict time) {
  return c11_result(pthread_cond_timedwait(posix(condition), posix(mutex), time));
}

TWIN_EXPORT int cnd_signal(cnd_t* condition) { return c11_result(pthread_cond_signal(posix(condition))); }

TWIN_EXPORT int cnd_broadcast(cnd_t* condition) { return c11_result(pthread_cond_broadcast(posix(condition))); }

// ---- futexes by number

namespace twin {
namespace {

long wait_for_word(std::uint32_t* word, std::uint32_t value, Nanoseconds until) {
  if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) {
    errno = EAGAIN;
    return -1;
  }
  const Wait ended = wait_interruptibly(word, until);
  if (ended == Wait::kWoken) return 0;
  errno = ended == Wait::kTimeUp ? ETIMEDOUT : EINTR;
  return -1;
}

}  // namespace

long futex(const long (&arguments)[6]) {
  const auto [address, operation, value, limit, second, mask] = arguments;
  const auto call_kernel = [&](long count) {
    return TWIN_REAL(syscall)(SYS_futex, address, operation, count, limit, second, mask);
  };
  auto* const word = reinterpret_cast<std::uint32_t*>(address);
  const auto* const time = reinterpret_cast<const timespec*>(limit);
  const bool alone = timeline().alone() && next_timer() == kNever;
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET: {
      if (time == nullptr && alone) return call_kernel(value);  // only another process can wake it
      const bool absolute = (operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
      const clockid_t clock = (operation & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
      const Nanoseconds until = time == nullptr ? kNever
                                : absolute      ? deadline(clock, *time)
                                                : self->now() + to_ns(*time);
      return wait_for_word(word, static_cast<std::uint32_t>(value), until);
    }
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET: {
      // with a mask wakes all threads: a thread that need not have been woken finds out by itself
      const bool all = (operation & FUTEX_CMD_MASK) == FUTEX_WAKE_BITSET &&
                       static_cast<std::uint32_t>(mask) != FUTEX_BITSET_MATCH_ANY;
      long woken = 0;
      while ((all || woken < value) && timeline().wake_one(*self, word)) ++woken;
      if ((operation & FUTEX_PRIVATE_FLAG) != 0 || woken >= value) return woken;
      const long others = call_kernel(value - woken);  // threads of other processes
      return others < 0 ? others : woken + others;
    }
    default:
      if (alone) return call_kernel(value);
      refuse("this operation of futex()", "the thread would wait in the kernel, and the other threads never run",
             "Use the locks of pthreads");
  }
}

}  // namespace twin
