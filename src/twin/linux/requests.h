// The guest's requests on the simulated drive: when each reaches it, when it is over, and the trace of all of them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <string>
#include <vector>

#include "core/event_queue.h"
#include "core/slot_pool.h"
#include "drive/drive.h"

namespace twin {

// Writes a row for each request, in the order in which the guest queued them, as a table that traces are read from.
class TraceWriter {
 public:
  // Throws std::runtime_error when the file cannot be made.
  explicit TraceWriter(std::string path);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Adds a request; returns the number of its row.
  std::uint64_t queued(Nanoseconds now, const Request& request);
  void dispatched(Nanoseconds now, std::uint64_t row) { rows_[row - written_].dispatched_ns = now; }
  void completed(Nanoseconds now, std::uint64_t row);

  // Writes the requests that are not complete, without the times that are not known of them. Throws std::runtime_error.
  void finish();

 private:
  struct Row {
    Request request;
    Nanoseconds queued_ns, dispatched_ns, completed_ns;
  };

  void write(const Row& row);

  std::string path_;
  std::FILE* file_;
  std::deque<Row> rows_;       // from the first that is not complete on
  std::uint64_t written_ = 0;  // rows that are in the file
};

// Linux is the block layer in front of this drive, so the model's own schedules, merges and splits nothing. A kernel
// in virtual time costs no processor time: what the model says of a host's costs is added to each request as latency.
class Requests {
 public:
  Requests(const Parameters& parameters, std::uint64_t seed);

  [[nodiscard]] Drive& drive() { return drive_; }

  // From now on writes a trace. The writer must outlive the requests.
  void record_to(TraceWriter& trace) { trace_ = &trace; }

  // Takes a request at `now`. The caller chooses `ticket`, and is told it when the request is complete.
  void submit(Nanoseconds now, const Request& request, std::uint64_t ticket);

  // Answers at once a request that the drive itself does not serve.
  void answer(Nanoseconds now, std::uint64_t ticket);

  // The guest is told of no request before this time.
  [[nodiscard]] Nanoseconds earliest_completion_ns() const;

  // Lets time pass until `until`, or until the guest is to be told of requests that are over: then returns that time,
  // with their tickets in `done`, else kNever.
  Nanoseconds run(Nanoseconds until, std::vector<std::uint64_t>& done);

  // How many have been submitted.
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  struct Active {
    Request request;
    std::uint64_t ticket = 0;
    std::uint64_t row = 0;
    bool traced = false;
  };

  // Lets submissions reach the drive, and completions the guest.
  class Delay final : public EventHandler {
   public:
    Delay(Requests& requests, void (Requests::*what)(Nanoseconds, std::uint32_t)) : requests_(requests), what_(what) {}
    void on_event(Nanoseconds now, std::uint64_t slot) override {
      (requests_.*what_)(now, static_cast<std::uint32_t>(slot));
    }

   private:
    Requests& requests_;
    void (Requests::*what_)(Nanoseconds, std::uint32_t);
  };

  void dispatch(Nanoseconds now, std::uint32_t slot);
  void deliver(Nanoseconds now, std::uint32_t slot);

  Drive drive_;
  EventQueue dispatches_, deliveries_;
  SlotPool<Active> active_;
  Delay dispatching_{*this, &Requests::dispatch};
  Delay delivering_{*this, &Requests::deliver};
  std::vector<std::uint64_t> done_;
  TraceWriter* trace_ = nullptr;
  std::uint64_t count_ = 0;
};

}  // namespace twin
