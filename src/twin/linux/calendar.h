// The calendar of User-mode Linux's external time travel: it decides when the guest runs in virtual time.
//
// The guest either runs or waits. While it waits, this process advances the time. The guest requests the time of its
// own next event. It runs again at that time, or earlier if the drive interrupts it. A running guest advances its clock
// itself, up to a limit that this process sends: the earliest time at which the drive may complete a request. The
// exchange is synchronous, so a run depends only on its input. Protocol: include/uapi/linux/um_timetravel.h of the
// kernel's source.
//
// A kernel built by src/kernel shares a page of its memory that holds the time (clock-page-*.patch there). Both sides
// then use this page, and only two messages remain: the guest reports that it waits, and this process lets it run.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "core/units.h"

namespace twin {

class Calendar {
 public:
  // `socket` is connected to the guest; `time_of_day_ns` is the time since 1970 at which the guest's clock starts.
  Calendar(int socket, Nanoseconds time_of_day_ns) : socket_(socket), time_of_day_ns_(time_of_day_ns) {}

  [[nodiscard]] int socket() const { return socket_; }
  [[nodiscard]] Nanoseconds now() const { return now_; }
  [[nodiscard]] bool guest_waits() const { return waits_; }

  // Whether this process controls the guest's time. A kernel without time travel uses the host's clock; its socket is
  // -1.
  [[nodiscard]] bool is_virtual() const { return socket_ >= 0; }

  // The time of the guest's next own event; kNever if only the drive can wake the guest.
  [[nodiscard]] Nanoseconds guest_next() const { return guest_next_; }

  // Sets the function that returns a pointer to `size_bytes` of the guest's memory at `address`, or throws. Until it is
  // set, no page is shared.
  void see_memory(std::function<void*(std::uint64_t address, std::uint64_t size_bytes)> memory) {
    memory_ = std::move(memory);
  }

  // Reads the guest's time from the shared page, if there is one. Call on every message of the guest. Throws
  // std::runtime_error for an impossible time, because the guest's programs can write to the page.
  void look();

  // Reads and answers one message of the guest. Throws GuestGone, and std::runtime_error for an invalid message.
  void serve();

  // Advances the time while the guest waits. `when` must not be before now().
  void advance_to(Nanoseconds when);

  // Reads from the page when the guest wants to run next. Call when the guest begins to wait, and when it has confirmed
  // an interrupt. Reading an unchanged request again has no effect.
  void see_request();

  // Sets the time that each system call and each page fault of the guest's programs takes from now on. Throws
  // std::runtime_error if no page is shared.
  void charge(Nanoseconds call_ns, Nanoseconds fault_ns);

  // What the guest's programs have done: charged system calls and page faults, and endless loops that gave way.
  struct Work {
    std::uint64_t calls = 0, faults = 0, loops = 0;
  };
  [[nodiscard]] Work work() const;

  // The program that runs at present. The values come from memory to which the guest's programs can write.
  struct Program {
    std::uint64_t process = 0;  // its process on the host; 0 if none runs
    std::uint64_t runs = 0;     // changes whenever a program begins to run
  };
  [[nodiscard]] Program program() const;

  // Makes the running program give way when it next receives SIGALRM. Without this call the guest's kernel lets the
  // program give way only if it is in an endless loop.
  void force();

  // Lets the waiting guest run from now(). It may advance its clock itself up to `limit`.
  void run_guest(Nanoseconds limit);

  // Sends a running guest the earlier limit `limit`; does nothing if its present limit is not later.
  void shorten(Nanoseconds limit);

 private:
  struct Message {
    std::uint32_t operation;
    std::uint32_t sequence;
    std::uint64_t time;
  };

  // The first members of the kernel's struct clock_page. Guest and calendar never run at the same time.
  struct Page {
    std::uint64_t now, free_until, request, call_ns, fault_ns, calls, faults, runs, program, forced, loops;
  };

  Nanoseconds share(std::uint64_t address);

  int socket_;
  Nanoseconds time_of_day_ns_;
  Nanoseconds now_ = 0;
  Nanoseconds guest_next_ = kNever;
  Nanoseconds limit_ = 0;
  bool waits_ = false;
  std::uint32_t sent_ = 0, acknowledged_ = 0;  // numbers of the messages from this process
  std::function<void*(std::uint64_t, std::uint64_t)> memory_;
  volatile Page* page_ = nullptr;
};

}  // namespace twin
