// Parameters of the host: CPU time per request, and the block layer with its scheduler.
#pragma once

#include <cstdint>

#include "core/fields.h"
#include "core/units.h"

namespace twin {

enum class Scheduler : std::uint8_t { kNone, kNoop, kDeadline, kCfq };

struct HostParameters {
  Nanoseconds submit_time = 0;
  Nanoseconds wakeup_time = 0;
  Nanoseconds reap_time = 0;
  Nanoseconds page_time = 0;
  Nanoseconds lock_time = 0;
  Scheduler scheduler = Scheduler::kNone;
  std::int64_t nr_requests = 0;
  std::int64_t max_request = 0;
  bool blocking_submit = false;
  std::int64_t submitter_burst = 0;

  void visit(FieldVisitor& v) {
    v.time("submit_time", submit_time, kSecond,
           "CPU time of the submitting thread for each request, from the system call to the block layer");
    v.time("wakeup_time", wakeup_time, kSecond,
           "time from the completion interrupt until the waiting thread runs again; paid once for each wait");
    v.time("reap_time", reap_time, kSecond,
           "CPU time to reap a completed request; paid for each request, whether or not the thread had to wait");
    v.time("page_time", page_time, kMillisecond, "CPU time to pin and map each 4 KiB page of a request's buffer");
    v.time("lock_time", lock_time, kMillisecond,
           "time for which a request holds the queue lock of all processors (SCSI before Linux 5.0); 0: no such lock");
    v.choice("scheduler", scheduler, {"none", "noop", "deadline", "cfq"},
             "I/O scheduler: orders and merges the requests that wait while the drive's queue is full");
    v.count("nr_requests", nr_requests, 1, 65536,
            "number of requests that can be queued in the block layer before submitters have to wait");
    v.size("max_request", max_request, 4096, 1 << 30,
           "largest request sent to the drive; larger ones are split, and merging stops at this size");
    v.toggle("blocking_submit", blocking_submit,
             "whether an asynchronous submission waits for completion, as on file systems without asynchronous I/O");
    v.optional_count("submitter_burst", submitter_burst, 0, 1'000'000,
                     "mean number of requests that go on to the block layer before another one of the jobs that wait "
                     "beyond nr_requests is preferred; 0: requests go on in order of arrival");
  }
};

}  // namespace twin
