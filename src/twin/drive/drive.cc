// Puts the layers of a drive together.
#include "drive/drive.h"

#include <stdexcept>
#include <vector>

#include "controller/ssd.h"
#include "core/event_queue.h"
#include "disk/hard_disk.h"
#include "ftl/log_block_ftl.h"
#include "ftl/page_ftl.h"
#include "host/block_layer.h"
#include "link/link.h"

namespace twin {
namespace {

constexpr std::uint64_t kHostPageBytes = 4096;

// Makes the FTL that the parameters choose. It is given the parameter groups that it knows and no others.
std::unique_ptr<Ftl> make_ftl(const Parameters& parameters, std::uint64_t seed, EventQueue& events, FtlClient& client,
                              Counters& counters) {
  const std::int64_t capacity_bytes = parameters.capacity.size;
  switch (parameters.ftl.mapping) {
    case Mapping::kPage:
      return std::make_unique<PageFtl>(capacity_bytes, parameters.flash, parameters.ageing, seed, parameters.ftl,
                                       parameters.page_mapping, events, client, counters);
    case Mapping::kLogBlock:
      return std::make_unique<LogBlockFtl>(capacity_bytes, parameters.flash, parameters.ageing, seed, parameters.ftl,
                                           parameters.log_mapping, events, client, counters);
  }
  return nullptr;
}

}  // namespace

class Drive::Implementation final : public CompletionSink {
 public:
  Implementation(const Parameters& parameters, std::uint64_t seed)
      : parameters_(parameters),
        link_(parameters_.link, events_),
        block_layer_(parameters_.host, events_, link_, counters_, *this) {
    if (parameters_.capacity.size % 4096 != 0) throw std::invalid_argument("capacity.size: must be a multiple of 4096");
    if (parameters_.kind == DriveKind::kSsd) {
      const SsdParameters groups{parameters_.controller, parameters_.write_buffer, parameters_.read_cache,
                                 parameters_.read_ahead};
      const auto make = [this, seed](FtlClient& client) {
        return make_ftl(parameters_, seed, events_, client, counters_);
      };
      auto ssd = std::make_unique<Ssd>(groups, size_bytes(), make, link_, events_, counters_);
      ftl_ = &ssd->ftl();
      device_ = std::move(ssd);
    } else {
      device_ = std::make_unique<HardDisk>(parameters_.disk, parameters_.capacity.size, link_, events_, counters_);
    }
    link_.connect(block_layer_, *device_);
  }

  [[nodiscard]] std::uint64_t size_bytes() const { return static_cast<std::uint64_t>(parameters_.capacity.size); }

  void completed(Nanoseconds now, std::uint64_t ticket) override { completions_.push_back({ticket, now}); }

  std::optional<Completion> run(Nanoseconds until) {
    while (next_completion_ == completions_.size()) {
      const Nanoseconds next = events_.next();
      if (next > until || next == kNever) return std::nullopt;
      if (next >= next_snapshot_) snapshot(next);
      events_.run_next();
    }
    const Completion first = completions_[next_completion_++];
    if (next_completion_ == completions_.size()) {
      completions_.clear();
      next_completion_ = 0;
    }
    return first;
  }

  [[nodiscard]] Nanoseconds next_event() const {
    return next_completion_ < completions_.size() ? completions_[next_completion_].when_ns : events_.next();
  }

  void submit(Nanoseconds now, const Request& request, std::uint64_t ticket) {
    block_layer_.submit(now, request, ticket);
    if (recorder_ == nullptr || request.operation != Operation::kWrite) return;
    written_bytes_ += request.size_bytes;
    if (interval_bytes_ > 0 && written_bytes_ >= next_bytes_) {
      record_state(now);
      next_bytes_ = (written_bytes_ / interval_bytes_ + 1) * interval_bytes_;
    }
  }

  void record_to(Recorder& recorder, Nanoseconds interval_ns, std::uint64_t interval_bytes) {
    recorder_ = &recorder;
    interval_ns_ = interval_ns;
    next_snapshot_ = interval_ns > 0 ? 0 : kNever;
    interval_bytes_ = next_bytes_ = interval_bytes;
    block_layer_.record_to(recorder);
  }

  void record_state(Nanoseconds now) {
    record_counters(counters_, now, *recorder_);
    if (ftl_ != nullptr) ftl_->record(now, *recorder_);
  }

  const Parameters parameters_;
  EventQueue events_;
  Counters counters_;
  Link link_;
  BlockLayer block_layer_;
  std::unique_ptr<Device> device_;
  const Ftl* ftl_ = nullptr;

 private:
  // The state just before `next`, the first event at which a snapshot is due; without events the state does not change.
  void snapshot(Nanoseconds next) {
    const Nanoseconds due = next_snapshot_ == 0 ? next : next - (next - next_snapshot_) % interval_ns_;
    record_state(due);
    next_snapshot_ = due + interval_ns_;
  }

  std::vector<Completion> completions_;  // from next_completion_ on not yet handed out
  std::size_t next_completion_ = 0;
  Recorder* recorder_ = nullptr;
  Nanoseconds interval_ns_ = 0, next_snapshot_ = kNever;
  std::uint64_t interval_bytes_ = 0, next_bytes_ = 0, written_bytes_ = 0;
};

Drive::Drive(const Parameters& parameters, std::uint64_t seed)
    : implementation_(std::make_unique<Implementation>(parameters, seed)) {}
Drive::~Drive() = default;

std::uint64_t Drive::size_bytes() const { return implementation_->size_bytes(); }

Nanoseconds Drive::submit_cost_ns(const Request& request) const {
  const HostParameters& host = implementation_->parameters_.host;
  const auto pages = static_cast<Nanoseconds>((request.size_bytes + kHostPageBytes - 1) / kHostPageBytes);
  return host.submit_time + (request.operation == Operation::kDiscard ? 0 : pages * host.page_time);
}

Nanoseconds Drive::wakeup_cost_ns() const { return implementation_->parameters_.host.wakeup_time; }

Nanoseconds Drive::reap_cost_ns() const { return implementation_->parameters_.host.reap_time; }

bool Drive::blocking_submit() const { return implementation_->parameters_.host.blocking_submit; }

void Drive::submit(Nanoseconds now, const Request& request, std::uint64_t ticket) {
  implementation_->submit(now, request, ticket);
}

Nanoseconds Drive::next_event_ns() const { return implementation_->next_event(); }

std::optional<Completion> Drive::run(Nanoseconds until) { return implementation_->run(until); }

const Counters& Drive::counters() const { return implementation_->counters_; }

void Drive::record_to(Recorder& recorder, Nanoseconds interval_ns, std::uint64_t interval_bytes) {
  implementation_->record_to(recorder, interval_ns, interval_bytes);
}

}  // namespace twin
