// Assembly of a drive from its layers.
#include "drive/drive.h"

#include <stdexcept>

#include "controller/ssd.h"
#include "disk/hard_disk.h"
#include "ftl/log_block_ftl.h"
#include "ftl/page_ftl.h"

namespace twin {

Drive::Drive(const Parameters& parameters, std::uint64_t seed)
    : parameters_(parameters),
      link_(parameters_.link, events_),
      block_layer_(parameters_.host, events_, link_, counters_, *this, seed) {
  const Parameters& p = parameters_;
  if (p.capacity.size % 4096 != 0) throw std::invalid_argument("capacity.size: must be a multiple of 4096");
  if (p.kind == DriveKind::kSsd) {
    // each layer gets only its own parameter groups
    const auto make_ftl = [&](FtlClient& client) -> std::unique_ptr<Ftl> {
      if (p.ftl.mapping == Mapping::kPage) {
        return std::make_unique<PageFtl>(p.capacity.size, p.flash, p.ageing, seed, p.ftl, p.page_mapping, events_,
                                         client, counters_);
      }
      return std::make_unique<LogBlockFtl>(p.capacity.size, p.flash, p.ageing, seed, p.ftl, p.log_mapping, events_,
                                           client, counters_);
    };
    auto ssd = std::make_unique<Ssd>(SsdParameters{p.controller, p.write_buffer, p.read_cache, p.read_ahead},
                                     size_bytes(), make_ftl, link_, events_, counters_, seed);
    ftl_ = &ssd->ftl();
    device_ = std::move(ssd);
  } else {
    device_ = std::make_unique<HardDisk>(p.disk, p.capacity.size, link_, events_, counters_);
  }
  link_.connect(block_layer_, *device_);
}

Nanoseconds Drive::submit_cost_ns(const Request& request) const {
  constexpr std::uint64_t kHostPageBytes = 4096;
  const auto pages = static_cast<Nanoseconds>((request.size_bytes + kHostPageBytes - 1) / kHostPageBytes);
  return parameters_.host.submit_time +
         (request.operation == Operation::kDiscard ? 0 : pages * parameters_.host.page_time);
}

void Drive::submit(Nanoseconds now, const Request& request, std::uint64_t ticket) {
  // a discard can change the state at once, without an event
  if (now >= next_snapshot_) record_before(now);
  block_layer_.submit(now, request, ticket);
  if (recorder_ == nullptr || request.operation != Operation::kWrite) return;
  written_bytes_ += request.size_bytes;
  if (interval_bytes_ > 0 && written_bytes_ >= next_bytes_) {
    record_state(now);
    next_bytes_ = (written_bytes_ / interval_bytes_ + 1) * interval_bytes_;
  }
}

std::optional<Completion> Drive::run(Nanoseconds until) {
  while (completions_.empty()) {
    const Nanoseconds next = events_.next();
    if (next > until || next == kNever) return std::nullopt;
    if (next >= next_snapshot_) record_before(next);
    events_.run_next();
  }
  const Completion first = completions_.front();
  completions_.pop_front();
  return first;
}

void Drive::record_to(Recorder& recorder, Nanoseconds interval_ns, std::uint64_t interval_bytes) {
  recorder_ = &recorder;
  interval_ns_ = interval_ns;
  next_snapshot_ = interval_ns > 0 ? 0 : kNever;
  interval_bytes_ = next_bytes_ = interval_bytes;
  block_layer_.record_to(recorder);
}

// Records the last snapshot that is due before the event or request at `next`. Earlier snapshots since the previous one
// would be equal to it, because only events and requests change the state.
void Drive::record_before(Nanoseconds next) {
  const Nanoseconds due = next - next % interval_ns_;
  record_state(due);
  next_snapshot_ = due + interval_ns_;
}

void Drive::record_state(Nanoseconds now) {
  record_counters(counters_, now, *recorder_);
  if (ftl_ != nullptr) ftl_->record(now, *recorder_);
}

}  // namespace twin
