// The host's delays before and after the drive, and the rows of the trace.
#include "linux/requests.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace twin {
namespace {

// By operation.
constexpr const char* kNames[] = {"read", "write", "flush", "discard"};

}  // namespace

TraceWriter::TraceWriter(std::string path)
    : path_(std::move(path)), file_(std::fopen(path_.c_str(), "we"), &std::fclose) {
  if (file_ == nullptr) throw std::runtime_error(path_ + ": " + std::strerror(errno));
  std::fputs("operation,offset_bytes,size_bytes,time_ns,dispatched_ns,completed_ns\n", file_.get());
}

std::uint64_t TraceWriter::queued(Nanoseconds now, const Request& request) {
  rows_.push_back({request, now, kNever, kNever});
  return written_ + rows_.size() - 1;
}

void TraceWriter::completed(Nanoseconds now, std::uint64_t row) {
  rows_[row - written_].completed_ns = now;
  while (!rows_.empty() && rows_.front().completed_ns != kNever) {
    write(rows_.front());
    rows_.pop_front();
    ++written_;
  }
}

void TraceWriter::write(const Row& row) {
  std::fprintf(file_.get(), "%s,%" PRIu64 ",%" PRIu64 ",%" PRId64, kNames[static_cast<int>(row.request.operation)],
               row.request.offset_bytes, row.request.size_bytes, row.queued_ns);
  for (const Nanoseconds when : {row.dispatched_ns, row.completed_ns}) {
    std::fputc(',', file_.get());
    if (when != kNever) std::fprintf(file_.get(), "%" PRId64, when);
  }
  std::fputc('\n', file_.get());
}

void TraceWriter::finish() {
  for (const Row& row : rows_) write(row);
  rows_.clear();
  const bool good = std::ferror(file_.get()) == 0;
  if (std::fclose(file_.release()) != 0 || !good) {
    throw std::runtime_error(path_ + ": " + std::strerror(errno));
  }
}

Requests::Requests(const Parameters& parameters, std::uint64_t seed) : drive_(parameters, seed) {}

void Requests::submit(Nanoseconds now, const Request& request, std::uint64_t ticket) {
  const std::uint32_t slot = active_.take({request, ticket, std::nullopt});
  if (trace_ != nullptr) active_[slot].row = trace_->queued(now, request);
  ++count_;
  last_dispatch_ns_ = std::max(last_dispatch_ns_, now + drive_.submit_cost_ns(request));
  dispatches_.schedule(last_dispatch_ns_, dispatching_, slot);
}

void Requests::answer(Nanoseconds now, std::uint64_t ticket) {
  deliveries_.schedule(now, delivering_, active_.take({{}, ticket, std::nullopt}));
}

void Requests::dispatch(Nanoseconds now, std::uint32_t slot) {
  const Active& active = active_[slot];
  if (active.row) trace_->dispatched(now, *active.row);
  drive_.submit(now, active.request, slot);
}

void Requests::deliver(Nanoseconds now, std::uint32_t slot) {
  if (const auto row = active_[slot].row) trace_->completed(now, *row);
  done_.push_back(active_[slot].ticket);
  active_.release(slot);
}

Nanoseconds Requests::earliest_completion_ns() const {
  const Nanoseconds in_drive = std::min(dispatches_.next(), drive_.next_event_ns());
  if (in_drive == kNever) return deliveries_.next();
  return std::min(deliveries_.next(), in_drive + drive_.wakeup_cost_ns() + drive_.reap_cost_ns());
}

Nanoseconds Requests::run(Nanoseconds until, std::vector<std::uint64_t>& done) {
  for (;;) {
    const Nanoseconds next = std::min(dispatches_.next(), deliveries_.next());
    if (const auto completion = drive_.run(std::min(until, next))) {
      const auto slot = static_cast<std::uint32_t>(completion->ticket);
      deliveries_.schedule(completion->when_ns + drive_.wakeup_cost_ns() + drive_.reap_cost_ns(), delivering_, slot);
      continue;
    }
    if (next == kNever || next > until) return kNever;
    if (dispatches_.next() == next) {
      dispatches_.run_next();
      continue;
    }
    deliveries_.run_next();
    if (deliveries_.next() == next) continue;
    done.swap(done_);
    done_.clear();
    return next;
  }
}

}  // namespace twin
