// Threads and their synchronization: mutexes, condition variables, locks, barriers and semaphores.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <unistd.h>

#include <map>
#include <memory>

#include "preload/process.h"
#include "preload/real.h"

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
    timeline().wait(*self, key, until);
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

// Waits on a condition variable. Returns ETIMEDOUT if it is not signalled by `until`, in virtual time.
int wait_on(pthread_cond_t* condition, pthread_mutex_t* mutex, Nanoseconds until) {
  unlock(mutex);
  const bool woken = timeline().wait(*self, condition, until);
  lock(mutex);
  return woken ? 0 : ETIMEDOUT;
}

// Waits for the end of a thread. Returns EBUSY if it has not ended by `until`, in virtual time.
int wait_for_end(pthread_t thread, Nanoseconds until) {
  while (timeline().has(thread)) {
    if (self->now() >= until) return EBUSY;
    timeline().wait(*self, key_of(thread), until);
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

// Waits until the semaphore is posted. Returns -1 with errno set; ETIMEDOUT if it is not posted by `until`.
int wait_for_post(sem_t* semaphore, Nanoseconds until) {
  while (sem_trywait(semaphore) != 0) {
    if (errno != EAGAIN) return -1;
    if (!timeline().wait(*self, semaphore, until)) {
      errno = ETIMEDOUT;
      return -1;
    }
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
  if (self == nullptr || twin::timeline().alone()) return TWIN_REAL(sem_wait)(semaphore);
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
