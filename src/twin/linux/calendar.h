// The guest's clock: User-mode Linux's external time travel, of which this is the calendar.
//
// The guest runs, or waits; while it waits, this process keeps the time. The guest asks to be run at its own next
// event, and is run then, or when the drive has interrupted it before. While it runs it advances its clock itself, up
// to a limit that it is told: the earliest time at which the drive may have something for it. All is synchronous, so a
// run depends on its input alone. Protocol: include/uapi/linux/um_timetravel.h of the kernel's source.
//
// A kernel built by src/kernel offers a page of its memory in which the time stands (clock-page-*.patch there). It is
// then read and written in place of all messages but two: the guest says that it waits, and is told to run.
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

  // Whether this process keeps the guest's time. A kernel without time travel goes by the host's clock, and has no
  // socket (-1).
  [[nodiscard]] bool is_virtual() const { return socket_ >= 0; }

  // When the guest wants to run next; kNever when nothing but the drive would ever wake it.
  [[nodiscard]] Nanoseconds guest_next() const { return guest_next_; }

  // Gives the way to the guest's memory: a pointer to so many bytes at an address, or an exception. Without it no page
  // is shared.
  void see_memory(std::function<void*(std::uint64_t address, std::uint64_t size_bytes)> memory) {
    memory_ = std::move(memory);
  }

  // Reads from the page, if there is one, how far the guest has got: whenever a message of it comes. Throws
  // std::runtime_error where that cannot be: its programs can write there.
  void look();

  // Reads and answers one message of the guest. Throws GuestGone, std::runtime_error for one that makes no sense.
  void serve();

  // The guest must wait. `when` must not lie before now().
  void advance_to(Nanoseconds when);

  // Reads from the page when the guest wants to run: once it waits, and once it has confirmed an interrupt. One that it
  // has already, and has not come to, changes nothing.
  void see_request();

  // Lets the waiting guest run from now() on; it may go on by itself until `limit`.
  void run_guest(Nanoseconds limit);

  // Has a running guest stop at `limit`, where that is earlier than what it was told.
  void shorten(Nanoseconds limit);

 private:
  struct Message {
    std::uint32_t operation;
    std::uint32_t sequence;
    std::uint64_t time;
  };

  // The beginning of the kernel's struct clock_page. Of guest and calendar one runs at a time.
  struct Page {
    std::uint64_t now, free_until, request;
  };

  void answer(const Message& message, Nanoseconds time);
  Nanoseconds share(std::uint64_t address);

  int socket_;
  Nanoseconds time_of_day_ns_;
  Nanoseconds now_ = 0;
  Nanoseconds guest_next_ = kNever;
  Nanoseconds limit_ = 0;
  bool waits_ = false;
  std::uint32_t sent_ = 0, acknowledged_ = 0;  // messages that are numbered by us
  std::function<void*(std::uint64_t, std::uint64_t)> memory_;
  volatile Page* page_ = nullptr;
};

}  // namespace twin
