// The virtual clock with real threads: the order of the threads, and its reproducibility.
#include <doctest/doctest.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cfenv>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "clock/timeline.h"

namespace twin {
namespace {

// An event source with one event at a time, which wakes a thread that waits for the key.
class Bell final : public EventSource {
 public:
  [[nodiscard]] Nanoseconds next_event() const override { return when_; }
  void advance(Nanoseconds) override {
    const Nanoseconds now = when_;
    when_ = kNever;
    if (log != nullptr) log->push_back("bell " + std::to_string(now));
    timeline->wake_one_at(key, now);
  }
  void ring_at(Nanoseconds when) { when_ = when; }

  Timeline* timeline = nullptr;
  const void* key = nullptr;
  std::vector<std::string>* log = nullptr;

 private:
  Nanoseconds when_ = kNever;
};

[[noreturn]] void on_deadlock() { throw std::runtime_error("every virtual thread waits"); }

// A program of threads on a timeline. The thread of the test is virtual thread 0. Only the running thread uses the log.
struct Program {
  Bell bell;
  Timeline timeline{bell, &on_deadlock};
  VirtualThread& self = timeline.start(0);
  std::vector<std::string> log;
  std::vector<std::thread> threads;

  Program() {
    bell.timeline = &timeline;
    bell.log = &log;
  }

  void say(const VirtualThread& who, const std::string& what) {
    log.push_back(std::to_string(who.number()) + " " + what + " " + std::to_string(who.now()));
  }

  VirtualThread& begin(const std::function<void(VirtualThread&)>& work) {
    VirtualThread& added = timeline.add();
    threads.emplace_back([this, &added, work] {
      timeline.begin(added);
      work(added);
      timeline.wake_all(added, &added);
      timeline.leave(added);
    });
    return added;
  }

  // Waits until all threads have left, and returns the log.
  std::vector<std::string> finish() {
    while (!timeline.alone()) timeline.wait(self, nullptr, self.now() + kSecond);
    for (std::thread& each : threads) each.join();
    return log;
  }
};

using Log = std::vector<std::string>;

TEST_CASE("the thread with the earliest time runs next, among equals the thread with the smallest number") {
  Program program;
  for (const Nanoseconds sleep : {300, 100, 200, 100}) {
    program.begin([&program, sleep](VirtualThread& self) {
      program.timeline.wait(self, nullptr, self.now() + sleep);
      program.say(self, "at");
    });
  }
  CHECK(program.finish() == Log{"2 at 100", "4 at 100", "3 at 200", "1 at 300"});
}

TEST_CASE("a thread gives way when its clock passes the time at which another thread is due") {
  Program program;
  program.begin([&program](VirtualThread& self) {
    for (int i = 0; i < 3; ++i) {
      program.timeline.advance(self, 60);
      program.say(self, "works");
    }
  });
  program.begin([&program](VirtualThread& self) {
    program.timeline.wait(self, nullptr, 100);
    program.say(self, "wakes");
  });
  CHECK(program.finish() == Log{"1 works 60", "2 wakes 100", "1 works 120", "1 works 180"});
}

TEST_CASE("an event is handled before a thread that is due at the same time") {
  Program program;
  int key = 0;
  program.bell.key = &key;
  program.begin([&](VirtualThread& self) {
    program.bell.ring_at(100);
    program.timeline.source_changed(self);
    CHECK(program.timeline.wait(self, &key, kNever));
    program.say(self, "heard");
  });
  program.begin([&](VirtualThread& self) {
    program.timeline.wait(self, nullptr, 100);
    program.say(self, "woke");
  });
  CHECK(program.finish() == Log{"bell 100", "1 heard 100", "2 woke 100"});
}

TEST_CASE("the thread that has waited longest is woken first, and wait() returns whether it was woken") {
  Program program;
  int key = 0;
  for (int i = 0; i < 2; ++i) {
    program.begin([&](VirtualThread& self) {
      const bool woken = program.timeline.wait(self, &key, self.number() == 1 ? kNever : 1000);
      program.say(self, woken ? "woken" : "late");
    });
  }
  program.begin([&](VirtualThread& self) {
    program.timeline.wait(self, nullptr, 50);
    CHECK(program.timeline.wake_one(self, &key));
  });
  CHECK(program.finish() == Log{"1 woken 50", "2 late 1000"});
}

TEST_CASE("a thread that waits for the end of another thread continues at that time") {
  Program program;
  VirtualThread& first = program.begin([&](VirtualThread& self) { program.timeline.advance(self, 70); });
  program.begin([&](VirtualThread& self) {
    program.timeline.wait(self, &first, kNever);
    program.say(self, "joined");
  });
  CHECK(program.finish() == Log{"2 joined 70"});
}

// Runs eight threads that work, sleep, wait and wake each other at random.
Log random_program(unsigned seed) {
  Program program;
  static const int keys[3] = {};
  std::vector<std::unique_ptr<std::mt19937>> chances;
  for (unsigned thread = 0; thread < 8; ++thread) {
    chances.push_back(std::make_unique<std::mt19937>(seed * 8 + thread));
    std::mt19937& chance = *chances.back();
    program.begin([&program, &chance](VirtualThread& self) {
      for (int step = 0; step < 30; ++step) {
        const void* key = &keys[chance() % 3];
        switch (chance() % 4) {
          case 0:
            program.timeline.advance(self, chance() % 50);
            break;
          case 1:
            program.timeline.wait(self, nullptr, self.now() + chance() % 50);
            break;
          case 2:
            program.timeline.wait(self, key, self.now() + chance() % 200);
            break;
          default:
            program.timeline.wake_one(self, key);
        }
        program.say(self, "acts");
      }
    });
  }
  return program.finish();
}

Nanoseconds time_of(const std::string& line) { return std::stoll(line.substr(line.rfind(' ') + 1)); }

TEST_CASE("no thread acts at a time that another thread has passed, and each run of a program is the same") {
  for (unsigned seed = 0; seed < 5; ++seed) {
    const Log first = random_program(seed);
    REQUIRE(first.size() == 240);
    Nanoseconds now = 0;
    for (const std::string& line : first) {
      REQUIRE(time_of(line) >= now);
      now = time_of(line);
    }
    for (int again = 0; again < 20; ++again) REQUIRE(random_program(seed) == first);
  }
}

TEST_CASE("each thread keeps its own state, and ends on the kernel thread on which it began") {
  Program program;
  static thread_local int own = 0;
  struct Seen {
    pid_t home = 0, end = 0;
    pthread_t thread{};
    sigset_t mask{};
    bool same = true;
  };
  std::array<Seen, 6> all;
  for (Seen& seen : all) {
    VirtualThread& added = program.timeline.add();
    program.threads.emplace_back([&program, &added, &seen] {
      sigset_t before;
      pthread_sigmask(SIG_BLOCK, nullptr, &before);
      seen.home = gettid();
      seen.thread = pthread_self();
      program.timeline.begin(added);
      for (int i = 1; i < 50; ++i) {
        own = static_cast<int>(added.number()) * 1000 + i;
        errno = own;
        std::fesetround(i % 2 == 0 ? FE_UPWARD : FE_DOWNWARD);
        program.timeline.wait(added, nullptr, added.now() + 10);
        seen.same = seen.same && own == static_cast<int>(added.number()) * 1000 + i && errno == own &&
                    pthread_equal(pthread_self(), seen.thread) != 0 &&
                    std::fegetround() == (i % 2 == 0 ? FE_UPWARD : FE_DOWNWARD);
      }
      program.timeline.leave(added);
      seen.end = gettid();
      sigset_t after;
      pthread_sigmask(SIG_BLOCK, nullptr, &after);
      seen.same = seen.same && sigismember(&before, SIGINT) == sigismember(&after, SIGINT);
    });
  }
  program.finish();
  for (const Seen& seen : all) {
    CHECK(seen.same);
    CHECK(seen.end == seen.home);
  }
}

TEST_CASE("the first thread may leave before the others") {
  Program program;
  for (const Nanoseconds sleep : {30, 10, 20}) {
    program.begin([&program, sleep](VirtualThread& self) {
      for (int i = 0; i < 3; ++i) program.timeline.wait(self, nullptr, self.now() + sleep);
      program.say(self, "at");
    });
  }
  program.timeline.wait(program.self, nullptr, 15);
  program.say(program.self, "leaves at");
  program.timeline.leave(program.self);
  for (std::thread& each : program.threads) each.join();
  CHECK(program.log == Log{"0 leaves at 15", "2 at 30", "3 at 60", "1 at 90"});
}

TEST_CASE("a deadlock is reported") {
  Program program;
  CHECK_THROWS_AS(program.timeline.wait(program.self, &program, kNever), std::runtime_error);
}

}  // namespace
}  // namespace twin
