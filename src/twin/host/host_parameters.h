// What the host adds: CPU time per request, and the block layer with its scheduler.
#pragma once

#include <cstdint>

#include "core/fields.h"
#include "core/units.h"

namespace twin {

enum class Scheduler : std::uint8_t { kNone, kNoop, kDeadline, kCfq };

struct HostParameters {
  Nanoseconds submit_time = 0;
  Nanoseconds complete_time = 0;
  Nanoseconds page_time = 0;
  Scheduler scheduler = Scheduler::kNone;
  std::int64_t nr_requests = 0;
  std::int64_t max_request = 0;
  bool blocking_submit = false;

  void visit(FieldVisitor& v) {
    v.number("submit_time", submit_time, Unit::kNanoseconds, 0, kSecond,
             "CPU time of the submitting thread from the system call to the block layer");
    v.number("complete_time", complete_time, Unit::kNanoseconds, 0, kSecond,
             "CPU time from the completion interrupt to the thread's return from the system call");
    v.number("page_time", page_time, Unit::kNanoseconds, 0, kMillisecond,
             "CPU time to pin and map each 4 KiB page of a request's buffer");
    v.choice("scheduler", scheduler, {"none", "noop", "deadline", "cfq"},
             "what orders and merges the requests that wait while the drive's queue is full");
    v.number("nr_requests", nr_requests, Unit::kCount, 1, 65536,
             "how many requests may wait in the block layer before submitters have to");
    v.number("max_request", max_request, Unit::kBytes, 4096, 1 << 30,
             "the largest request sent to the drive; larger ones are split, merging stops here");
    v.toggle(
        "blocking_submit", blocking_submit,
        "whether submitting an asynchronous request waits until it is done, as on a file system without asynchronous "
        "direct I/O");
  }
};

}  // namespace twin
