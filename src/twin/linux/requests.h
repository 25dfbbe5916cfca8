// The guest's requests on the simulated drive: their dispatch and completion times, and a trace of all requests.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/event_queue.h"
#include "core/slot_pool.h"
#include "drive/drive.h"

namespace twin {

// Writes a trace as CSV: one row for each request, in the order in which the guest queued the requests.
class TraceWriter {
 public:
  // Creates the file. Throws std::runtime_error.
  explicit TraceWriter(std::string path);

  // Adds a request and returns its row number.
  std::uint64_t queued(Nanoseconds now, const Request& request);
  void dispatched(Nanoseconds now, std::uint64_t row) { rows_[row - written_].dispatched_ns = now; }
  void completed(Nanoseconds now, std::uint64_t row);

  // Writes the outstanding requests, with empty fields for unknown times, and closes the file. Throws
  // std::runtime_error.
  void finish();

 private:
  struct Row {
    Request request;
    Nanoseconds queued_ns, dispatched_ns, completed_ns;
  };

  void write(const Row& row);

  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::deque<Row> rows_;       // from the first outstanding request on
  std::uint64_t written_ = 0;  // the number of rows in the file
};

// Passes the guest's requests to the drive and returns their completions.
//
// The guest's Linux is the block layer of this drive, so the model's own block layer must be off
// (Model.without_block_layer()). The guest's kernel takes no virtual time, so the model's host costs are added to the
// latency of each request. A small request costs less than a large one, but is never sent to the drive before an
// earlier request.
class Requests {
 public:
  Requests(const Parameters& parameters, std::uint64_t seed);

  [[nodiscard]] Drive& drive() { return drive_; }

  // Starts to record a trace. `trace` must outlive this object.
  void record_to(TraceWriter& trace) { trace_ = &trace; }

  // Accepts a request at `now`. run() reports its completion with `ticket`, which the caller chooses.
  void submit(Nanoseconds now, const Request& request, std::uint64_t ticket);

  // Completes at `now` a request that does not reach the drive.
  void answer(Nanoseconds now, std::uint64_t ticket);

  // The earliest time at which a request can complete for the guest.
  [[nodiscard]] Nanoseconds earliest_completion_ns() const;

  // Advances the time to `until`, or to the first time at which requests complete for the guest. Returns that time,
  // with the tickets of the requests in `done`; kNever if no request completes by `until`.
  Nanoseconds run(Nanoseconds until, std::vector<std::uint64_t>& done);

  // The number of submitted requests.
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  struct Active {
    Request request;
    std::uint64_t ticket = 0;
    std::optional<std::uint64_t> row;  // in the trace
  };

  // Calls a member function for each request whose delay is over: dispatch() or deliver().
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
  Nanoseconds last_dispatch_ns_ = 0;
};

}  // namespace twin
