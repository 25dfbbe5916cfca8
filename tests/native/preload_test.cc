// Tests of the preload library: threads, locks, condition variables, descriptors, clocks, timers, signals and libaio in
// virtual time.
// test_native.py runs this program on a simulated drive, with the environment of `twin run`.
#include <doctest/doctest.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <list>
#include <string>
#include <utility>
#include <vector>

// The functions of libaio, which the preload library serves.
extern "C" {
int io_setup(int room, void** handle);
int io_destroy(void* handle);
int io_submit(void* handle, long count, void** iocbs);
int io_getevents(void* handle, long least, long most, void* events, timespec* timeout);
}

namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kSecond = 1'000'000'000;

std::int64_t now_ns(clockid_t clock = CLOCK_MONOTONIC) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

timespec in(std::int64_t time_ns, clockid_t clock = CLOCK_REALTIME) {
  const std::int64_t when = now_ns(clock) + time_ns;
  return {when / kSecond, when % kSecond};
}

void sleep_ms(std::int64_t milliseconds) {
  const timespec time{0, milliseconds * kMillisecond};
  nanosleep(&time, nullptr);
}

// Whether `taken_ns` is `expected_ns` plus the time of the calls themselves, which is below half a millisecond.
bool about(std::int64_t taken_ns, std::int64_t expected_ns) {
  return taken_ns >= expected_ns && taken_ns < expected_ns + kMillisecond / 2;
}

// Threads that pthread_create() starts and that are joined at the end of the scope.
class Threads {
 public:
  void begin(std::function<void()> work) {
    works_.push_back(std::move(work));
    pthread_t thread{};
    REQUIRE(pthread_create(&thread, nullptr, &run, &works_.back()) == 0);
    threads_.push_back(thread);
  }
  void join() {
    for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
    threads_.clear();
  }
  ~Threads() { join(); }

 private:
  static void* run(void* work) {
    (*static_cast<std::function<void()>*>(work))();
    return nullptr;
  }
  std::list<std::function<void()>> works_;
  std::vector<pthread_t> threads_;
};

int open_drive() {
  const int drive = open(getenv("TWIN_DRIVE"), O_RDWR | O_DIRECT);
  REQUIRE(drive >= 0);
  return drive;
}

struct alignas(4096) Page {
  std::array<char, 4096> bytes{};
};

}  // namespace

TEST_CASE("a condition variable wakes threads in the order in which they began to wait") {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
  int given = 0;
  std::vector<int> woken;
  Threads threads;
  for (int number = 0; number < 4; ++number) {
    threads.begin([&, number] {
      sleep_ms(number + 1);
      pthread_mutex_lock(&mutex);
      while (given == 0) pthread_cond_wait(&changed, &mutex);
      --given;
      woken.push_back(number);
      pthread_mutex_unlock(&mutex);
    });
  }
  for (int i = 0; i < 2; ++i) {
    sleep_ms(10);
    pthread_mutex_lock(&mutex);
    ++given;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
  }
  sleep_ms(10);
  pthread_mutex_lock(&mutex);
  given = 2;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
  threads.join();
  CHECK(woken == std::vector<int>{0, 1, 2, 3});
}

TEST_CASE("waiting on a condition variable ends at the time limit of either clock") {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  pthread_mutex_lock(&mutex);
  std::int64_t before = now_ns();
  timespec until = in(70 * kMillisecond);
  CHECK(pthread_cond_timedwait(&never, &mutex, &until) == ETIMEDOUT);
  CHECK(about(now_ns() - before, 70 * kMillisecond));
  before = now_ns();
  until = in(30 * kMillisecond, CLOCK_MONOTONIC);
  CHECK(pthread_cond_clockwait(&never, &mutex, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
  CHECK(about(now_ns() - before, 30 * kMillisecond));
  pthread_mutex_unlock(&mutex);
}

TEST_CASE("waiting for a mutex ends at the time limit") {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  Threads threads;
  threads.begin([&] {
    pthread_mutex_lock(&mutex);
    sleep_ms(50);
    pthread_mutex_unlock(&mutex);
  });
  sleep_ms(1);
  const std::int64_t before = now_ns();
  timespec until = in(20 * kMillisecond);
  CHECK(pthread_mutex_timedlock(&mutex, &until) == ETIMEDOUT);
  CHECK(about(now_ns() - before, 20 * kMillisecond));
  until = in(kSecond);
  CHECK(pthread_mutex_timedlock(&mutex, &until) == 0);
  CHECK(about(now_ns() - before, 49 * kMillisecond));
  pthread_mutex_unlock(&mutex);
}

TEST_CASE("a read-write lock admits several readers or one writer") {
  pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
  int readers = 0;
  int most_readers = 0;
  bool writing = false;
  Threads threads;
  const std::int64_t before = now_ns();
  for (int number = 0; number < 3; ++number) {
    threads.begin([&] {
      pthread_rwlock_rdlock(&lock);
      CHECK_FALSE(writing);
      most_readers = std::max(most_readers, ++readers);
      sleep_ms(20);
      --readers;
      pthread_rwlock_unlock(&lock);
    });
  }
  for (int number = 0; number < 2; ++number) {
    threads.begin([&] {
      sleep_ms(1);
      pthread_rwlock_wrlock(&lock);
      CHECK(readers == 0);
      CHECK_FALSE(writing);
      writing = true;
      sleep_ms(20);
      writing = false;
      pthread_rwlock_unlock(&lock);
    });
  }
  sleep_ms(5);
  timespec until = in(5 * kMillisecond);
  CHECK(pthread_rwlock_timedwrlock(&lock, &until) == ETIMEDOUT);
  threads.join();
  CHECK(most_readers == 3);
  CHECK(about(now_ns() - before, 60 * kMillisecond));
}

TEST_CASE("waiting for a spin lock takes virtual time") {
  pthread_spinlock_t lock;
  REQUIRE(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE) == 0);
  int holders = 0;
  Threads threads;
  const std::int64_t before = now_ns();
  for (int number = 0; number < 4; ++number) {
    threads.begin([&] {
      pthread_spin_lock(&lock);
      CHECK(++holders == 1);
      sleep_ms(10);
      --holders;
      pthread_spin_unlock(&lock);
    });
  }
  threads.join();
  CHECK(about(now_ns() - before, 40 * kMillisecond));
  CHECK(pthread_spin_trylock(&lock) == 0);
  pthread_spin_unlock(&lock);
  pthread_spin_destroy(&lock);
}

TEST_CASE("waiting for the end of a thread ends at the time limit of either clock") {
  pthread_t thread{};
  REQUIRE(pthread_create(
              &thread, nullptr,
              [](void* result) {
                sleep_ms(100);
                return result;
              },
              &thread) == 0);
  const std::int64_t before = now_ns();
  CHECK(pthread_tryjoin_np(thread, nullptr) == EBUSY);
  timespec until = in(20 * kMillisecond);
  CHECK(pthread_timedjoin_np(thread, nullptr, &until) == ETIMEDOUT);
  CHECK(about(now_ns() - before, 20 * kMillisecond));
  until = in(30 * kMillisecond, CLOCK_MONOTONIC);
  CHECK(pthread_clockjoin_np(thread, nullptr, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
  CHECK(about(now_ns() - before, 50 * kMillisecond));
  until = in(kSecond);
  void* result = nullptr;
  CHECK(pthread_timedjoin_np(thread, &result, &until) == 0);
  CHECK(result == &thread);
  CHECK(about(now_ns() - before, 100 * kMillisecond));
}

TEST_CASE("a loop that tries to join a thread terminates") {
  pthread_t thread{};
  REQUIRE(pthread_create(
              &thread, nullptr,
              [](void*) -> void* {
                sleep_ms(5);
                return nullptr;
              },
              nullptr) == 0);
  const std::int64_t before = now_ns();
  while (pthread_tryjoin_np(thread, nullptr) == EBUSY) {
  }
  CHECK(about(now_ns() - before, 5 * kMillisecond));
}

TEST_CASE("a barrier releases all threads in each round when the last has arrived") {
  pthread_barrier_t barrier;
  REQUIRE(pthread_barrier_init(&barrier, nullptr, 4) == 0);
  int serial = 0;
  std::array<std::int64_t, 4> passed{};
  Threads threads;
  const std::int64_t before = now_ns();
  for (std::size_t number = 0; number < 4; ++number) {
    threads.begin([&, number] {
      for (int round = 0; round < 3; ++round) {
        sleep_ms(10 * static_cast<std::int64_t>(number));
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) ++serial;
      }
      passed[number] = now_ns() - before;
    });
  }
  threads.join();
  CHECK(serial == 3);
  for (const std::int64_t each : passed) CHECK(about(each, 90 * kMillisecond));
  CHECK(pthread_barrier_destroy(&barrier) == 0);
}

TEST_CASE("waiting for a semaphore ends at the time limit or when it is posted") {
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  timespec until = in(15 * kMillisecond);
  CHECK(sem_timedwait(&semaphore, &until) == -1);
  CHECK(errno == ETIMEDOUT);
  Threads threads;
  threads.begin([&] {
    sleep_ms(5);
    sem_post(&semaphore);
  });
  CHECK(sem_wait(&semaphore) == 0);
}

TEST_CASE("a timer of timerfd_create() expires in virtual time and wakes epoll") {
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  const int set = epoll_create1(EPOLL_CLOEXEC);
  epoll_event asked{EPOLLIN, {.fd = timer}};
  REQUIRE(epoll_ctl(set, EPOLL_CTL_ADD, timer, &asked) == 0);
  const std::int64_t before = now_ns();
  const itimerspec every{{0, 10 * kMillisecond}, {0, 30 * kMillisecond}};
  REQUIRE(timerfd_settime(timer, 0, &every, nullptr) == 0);
  epoll_event found{};
  CHECK(epoll_wait(set, &found, 1, 5) == 0);  // not yet
  CHECK(about(now_ns() - before, 5 * kMillisecond));
  CHECK(epoll_wait(set, &found, 1, -1) == 1);
  CHECK(int{found.data.fd} == timer);  // a copy: the structure is packed
  CHECK(about(now_ns() - before, 30 * kMillisecond));
  std::uint64_t expirations = 0;
  CHECK(read(timer, &expirations, sizeof expirations) == sizeof expirations);
  CHECK(expirations == 1);
  sleep_ms(35);
  CHECK(epoll_wait(set, &found, 1, 0) == 1);
  CHECK(read(timer, &expirations, sizeof expirations) == sizeof expirations);
  CHECK(expirations == 3);
  itimerspec left{};
  CHECK(timerfd_gettime(timer, &left) == 0);
  CHECK(left.it_interval.tv_nsec == 10 * kMillisecond);
  close(set);
  close(timer);
}

// ---- timers and signals

volatile sig_atomic_t alarms = 0;

// Counts the signals of a kind during its lifetime.
class Handler {
 public:
  explicit Handler(int signal) : signal_(signal) {
    alarms = 0;
    struct sigaction action{};
    action.sa_handler = [](int) { alarms = alarms + 1; };
    sigaction(signal, &action, &before_);
  }
  ~Handler() { sigaction(signal_, &before_, nullptr); }
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

 private:
  int signal_;
  struct sigaction before_{};
};

TEST_CASE("setitimer() sends signals in virtual time and getitimer() counts down") {
  const Handler handler(SIGALRM);
  const std::int64_t before = now_ns();
  const itimerval every{{0, 20'000}, {0, 50'000}};
  REQUIRE(setitimer(ITIMER_REAL, &every, nullptr) == 0);
  sleep_ms(30);
  itimerval left{};
  CHECK(getitimer(ITIMER_REAL, &left) == 0);
  CHECK(about(left.it_value.tv_usec * 1000, 20 * kMillisecond - kMillisecond / 4));
  timespec rest{};
  const timespec second{1, 0};
  CHECK(nanosleep(&second, &rest) == -1);
  CHECK(errno == EINTR);
  CHECK(about(now_ns() - before, 50 * kMillisecond));
  CHECK(about(kSecond - (rest.tv_sec * kSecond + rest.tv_nsec), 20 * kMillisecond - kMillisecond / 4));
  CHECK(pause() == -1);
  CHECK(about(now_ns() - before, 70 * kMillisecond));
  CHECK(poll(nullptr, 0, 1000) == -1);
  CHECK(about(now_ns() - before, 90 * kMillisecond));
  const itimerval off{};
  itimerval was{};
  CHECK(setitimer(ITIMER_REAL, &off, &was) == 0);
  CHECK(was.it_interval.tv_usec == 20'000);
  sleep_ms(100);
  CHECK(alarms == 3);
}

TEST_CASE("alarm() ends a wait of the main thread for another thread") {
  const Handler handler(SIGALRM);
  CHECK(alarm(10) == 0);
  CHECK(alarm(2) == 10);
  const std::int64_t before = now_ns();
  Threads threads;
  threads.begin([&] {
    while (alarms == 0) sleep_ms(100);
  });
  threads.join();
  CHECK(now_ns() - before >= 2 * kSecond);
  CHECK(now_ns() - before < 2 * kSecond + 200 * kMillisecond);
}

TEST_CASE("a timer of timer_create() reports its value and its overruns") {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  REQUIRE(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0);
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGUSR1;
  event.sigev_value.sival_int = 42;
  timer_t timer = nullptr;
  REQUIRE(timer_create(CLOCK_REALTIME, &event, &timer) == 0);
  const itimerspec at{{0, 0}, in(50 * kMillisecond)};
  REQUIRE(timer_settime(timer, TIMER_ABSTIME, &at, nullptr) == 0);
  itimerspec left{};
  CHECK(timer_gettime(timer, &left) == 0);
  CHECK(about(left.it_value.tv_nsec, 50 * kMillisecond - kMillisecond / 4));
  const timespec ten{0, 10 * kMillisecond};
  siginfo_t info{};
  CHECK(sigtimedwait(&signals, &info, &ten) == -1);
  CHECK(errno == EAGAIN);
  const std::int64_t before = now_ns();
  CHECK(sigwaitinfo(&signals, &info) == SIGUSR1);
  CHECK(about(now_ns() - before, 40 * kMillisecond - kMillisecond / 4));
  CHECK(info.si_value.sival_int == 42);
  CHECK(timer_getoverrun(timer) == 0);
  CHECK(timer_delete(timer) == 0);
  CHECK(timer_delete(timer) == -1);
  REQUIRE(pthread_sigmask(SIG_UNBLOCK, &signals, nullptr) == 0);
}

TEST_CASE("reading a timer's descriptor waits until it expires on its own clock") {
  for (const clockid_t clock : {CLOCK_REALTIME, CLOCK_MONOTONIC}) {
    const int timer = timerfd_create(clock, 0);
    const std::int64_t before = now_ns();
    const itimerspec at{{0, 0}, in(25 * kMillisecond, clock)};
    REQUIRE(timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, nullptr) == 0);
    std::uint64_t expirations = 0;
    CHECK(read(timer, &expirations, sizeof expirations) == sizeof expirations);
    CHECK(expirations == 1);
    CHECK(about(now_ns() - before, 25 * kMillisecond));
    close(timer);
  }
}

TEST_CASE("a timer expires for every copy of its descriptor until the last one is closed") {
  const int timer = timerfd_create(CLOCK_MONOTONIC, 0);
  const int copy = dup(timer);
  const std::int64_t before = now_ns();
  const itimerspec every{{0, 20 * kMillisecond}, {0, 20 * kMillisecond}};
  REQUIRE(timerfd_settime(copy, 0, &every, nullptr) == 0);
  std::uint64_t expirations = 0;
  CHECK(read(copy, &expirations, sizeof expirations) == sizeof expirations);
  close(timer);
  iovec part{&expirations, sizeof expirations};
  CHECK(readv(copy, &part, 1) == sizeof expirations);
  CHECK(expirations == 1);
  CHECK(about(now_ns() - before, 40 * kMillisecond));
  close(copy);
}

TEST_CASE("reading the descriptor of a signal waits for the signal of a timer") {
  sigset_t signals;
  sigset_t mask;
  sigemptyset(&signals);
  sigaddset(&signals, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &signals, &mask);
  const int descriptor = signalfd(-1, &signals, SFD_CLOEXEC);
  const std::int64_t before = now_ns();
  alarm(2);
  signalfd_siginfo found{};
  CHECK(read(descriptor, &found, sizeof found) == sizeof found);
  CHECK(found.ssi_signo == SIGALRM);
  CHECK(about(now_ns() - before, 2 * kSecond));
  close(descriptor);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
}

TEST_CASE("reading the descriptor of eventfd() waits for another thread") {
  const int descriptor = eventfd(0, EFD_CLOEXEC);
  Threads threads;
  threads.begin([&] {
    sleep_ms(40);
    CHECK(eventfd_write(descriptor, 3) == 0);
  });
  const std::int64_t before = now_ns();
  eventfd_t value = 0;
  CHECK(eventfd_read(descriptor, &value) == 0);
  CHECK(value == 3);
  CHECK(about(now_ns() - before, 40 * kMillisecond));
  threads.join();
  close(descriptor);
}

TEST_CASE("sleeps end at an absolute time of either clock, and select() returns the time that is left") {
  for (const clockid_t clock : {CLOCK_REALTIME, CLOCK_MONOTONIC}) {
    const std::int64_t before = now_ns();
    const timespec at = in(30 * kMillisecond, clock);
    CHECK(clock_nanosleep(clock, TIMER_ABSTIME, &at, nullptr) == 0);
    CHECK(about(now_ns() - before, 30 * kMillisecond));
  }
  const timespec invalid{0, kSecond};
  CHECK(nanosleep(&invalid, nullptr) == -1);
  CHECK(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &invalid, nullptr) == EINVAL);
  timeval limit{0, 40'000};
  CHECK(select(0, nullptr, nullptr, nullptr, &limit) == 0);
  CHECK(limit.tv_usec == 0);
}

TEST_CASE("a loop on each clock of processor time ends") {
  const auto waits = [](auto read_ms) {
    const std::int64_t end = read_ms() + 20;
    while (read_ms() < end) {
    }
    return true;
  };
  CHECK(waits([] { return clock() / (CLOCKS_PER_SEC / 1000); }));
  CHECK(waits([] { return now_ns(CLOCK_PROCESS_CPUTIME_ID) / kMillisecond; }));
  CHECK(waits([] { return now_ns(CLOCK_THREAD_CPUTIME_ID) / kMillisecond; }));
  CHECK(waits([] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_stime.tv_sec * 1000 + usage.ru_stime.tv_usec / 1000;
  }));
  CHECK(waits([] {
    tms used{};
    times(&used);
    return std::int64_t{used.tms_stime} * 10;
  }));
}

TEST_CASE("the processor time of the process is that of all threads") {
  const std::int64_t before = now_ns(CLOCK_PROCESS_CPUTIME_ID);
  Threads threads;
  threads.begin([&] {
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) < 30 * kMillisecond) {
    }
  });
  threads.join();
  CHECK(now_ns(CLOCK_PROCESS_CPUTIME_ID) - before >= 30 * kMillisecond);
  CHECK(now_ns(CLOCK_THREAD_CPUTIME_ID) < now_ns(CLOCK_PROCESS_CPUTIME_ID));
}

TEST_CASE("a futex by number wakes and times out in virtual time") {
  std::uint32_t word = 1;
  const std::int64_t before = now_ns();
  const timespec limit{0, 15 * kMillisecond};
  CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, &limit) == -1);
  CHECK(errno == ETIMEDOUT);
  CHECK(about(now_ns() - before, 15 * kMillisecond));
  CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 2, &limit) == -1);
  CHECK(errno == EAGAIN);
  Threads threads;
  threads.begin([&] {
    sleep_ms(20);
    CHECK(syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1) == 1);
  });
  CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, nullptr) == 0);
  CHECK(about(now_ns() - before, 35 * kMillisecond));
  threads.join();
}

TEST_CASE("the threads of C11 run in virtual time") {
  thrd_t thread{};
  const std::int64_t before = now_ns();
  const auto run = [](void*) {
    const timespec time{0, 45 * kMillisecond};
    return thrd_sleep(&time, nullptr) == 0 ? 7 : 0;
  };
  REQUIRE(thrd_create(&thread, run, nullptr) == thrd_success);
  int result = 0;
  CHECK(thrd_join(thread, &result) == thrd_success);
  CHECK(result == 7);
  CHECK(about(now_ns() - before, 45 * kMillisecond));
}

TEST_CASE("fcntl() switches O_DIRECT of the drive on and off") {
  const int drive = open(getenv("TWIN_DRIVE"), O_RDONLY);
  std::array<char, 512> memory{};
  CHECK(pread(drive, memory.data(), 100, 0) == 100);
  REQUIRE(fcntl(drive, F_SETFL, fcntl(drive, F_GETFL) | O_DIRECT) == 0);
  CHECK((fcntl(drive, F_GETFL) & (O_DIRECT | O_ACCMODE)) == (O_DIRECT | O_RDONLY));
  CHECK(pread(drive, memory.data(), 100, 0) == -1);
  CHECK(errno == EINVAL);
  REQUIRE(fcntl(drive, F_SETFL, fcntl(drive, F_GETFL) & ~O_DIRECT) == 0);
  CHECK(pread(drive, memory.data(), 100, 0) == 100);
  close(drive);
}

TEST_CASE("calls by number act on the drive and read virtual time") {
  const auto drive = static_cast<int>(syscall(SYS_openat, AT_FDCWD, getenv("TWIN_DRIVE"), O_RDONLY));
  REQUIRE(drive >= 0);
  REQUIRE(syscall(SYS_fcntl, drive, F_SETFL, O_DIRECT) == 0);
  Page page;
  iovec part{page.bytes.data(), page.bytes.size()};
  for (const bool vector : {false, true}) {
    page.bytes.fill('x');
    const std::int64_t before = now_ns();
    CHECK((vector ? syscall(SYS_preadv2, drive, &part, 1, 4096L, 0L, 0)
                  : syscall(SYS_pread64, drive, page.bytes.data(), page.bytes.size(), 4096L)) == 4096);
    CHECK(now_ns() > before + 1000);
    CHECK(page.bytes[0] == 0);
  }
  CHECK(syscall(SYS_lseek, drive, 0L, SEEK_END) > 4096);
  CHECK(syscall(SYS_close, drive) == 0);
  struct sysinfo system{};
  CHECK(sysinfo(&system) == 0);
  CHECK(system.uptime == now_ns() / kSecond);
}

TEST_CASE("io_getevents() waits until its time limit if fewer operations are outstanding than it asks for") {
  void* context = nullptr;
  REQUIRE(io_setup(8, &context) == 0);
  const std::int64_t before = now_ns();
  io_event event{};
  timespec limit{0, 30 * kMillisecond};
  CHECK(io_getevents(context, 1, 1, &event, &limit) == 0);
  CHECK(about(now_ns() - before, 30 * kMillisecond));
  CHECK(io_destroy(context) == 0);
}

TEST_CASE("a write by another thread wakes epoll") {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const int set = epoll_create1(0);
  epoll_event asked{EPOLLIN, {.fd = ends[0]}};
  REQUIRE(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &asked) == 0);
  Threads threads;
  threads.begin([&] {
    sleep_ms(40);
    CHECK(write(ends[1], "x", 1) == 1);
  });
  const std::int64_t before = now_ns();
  epoll_event found{};
  CHECK(epoll_pwait(set, &found, 1, 10, nullptr) == 0);
  CHECK(about(now_ns() - before, 10 * kMillisecond));
  const timespec half_a_millisecond{0, kMillisecond / 2};
  CHECK(epoll_pwait2(set, &found, 1, &half_a_millisecond, nullptr) == 0);
  CHECK(about(now_ns() - before, 10 * kMillisecond + kMillisecond / 2));
  CHECK(epoll_pwait(set, &found, 1, 1000, nullptr) == 1);
  CHECK(about(now_ns() - before, 40 * kMillisecond));
  CHECK(epoll_pwait2(set, &found, 1, nullptr, nullptr) == 1);
  threads.join();
  for (const int each : {set, ends[0], ends[1]}) close(each);
}

TEST_CASE("every copy of a descriptor of the drive is a descriptor of the drive") {
  const int drive = open_drive();
  Page page;
  const int target = dup(STDERR_FILENO);
  const std::array copies{dup(drive), dup3(drive, target, O_CLOEXEC), fcntl(drive, F_DUPFD, 100),
                          fcntl(drive, F_DUPFD_CLOEXEC, 100)};
  for (const int copy : copies) {
    REQUIRE(copy >= 0);
    page.bytes.fill('x');
    const std::int64_t before = now_ns();
    CHECK(pread(copy, page.bytes.data(), page.bytes.size(), 0) == 4096);
    CHECK(now_ns() > before + 1000);
    CHECK(page.bytes[0] == 0);
    close(copy);
  }
  CHECK(pread(drive, page.bytes.data(), page.bytes.size(), 0) == 4096);
  close(drive);
}

TEST_CASE("threads share a drive with libaio, locks and plain reads") {
  const int drive = open_drive();
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  int done = 0;
  Threads threads;
  for (int number = 0; number < 4; ++number) {
    threads.begin([&, number] {
      void* context = nullptr;
      REQUIRE(io_setup(8, &context) == 0);
      std::vector<Page> pages(8);
      std::array<iocb, 8> iocbs{};
      for (int round = 0; round < 50; ++round) {
        for (std::size_t i = 0; i < 8; ++i) {
          iocbs[i].aio_lio_opcode = (round + number) % 2 == 0 ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE;
          iocbs[i].aio_fildes = static_cast<std::uint32_t>(drive);
          iocbs[i].aio_nbytes = 4096;
          iocbs[i].aio_buf = reinterpret_cast<std::uint64_t>(pages[i].bytes.data());
          iocbs[i].aio_offset =
              static_cast<std::int64_t>((static_cast<std::size_t>(number * 50 + round) * 8 + i) * 4096);
          void* one = &iocbs[i];
          REQUIRE(io_submit(context, 1, &one) == 1);
        }
        std::array<io_event, 8> events{};
        REQUIRE(io_getevents(context, 8, 8, events.data(), nullptr) == 8);
        for (const io_event& each : events) CHECK(each.res == 4096);
        REQUIRE(pread(drive, pages[0].bytes.data(), 4096, 0) == 4096);
        pthread_mutex_lock(&mutex);
        ++done;
        pthread_mutex_unlock(&mutex);
      }
      CHECK(io_destroy(context) == 0);
    });
  }
  threads.join();
  CHECK(done == 200);
  CHECK(fsync(drive) == 0);
  close(drive);
  std::printf("virtual time at the end: %lld ns\n", static_cast<long long>(now_ns()));
}
