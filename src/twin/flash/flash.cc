// Dies and channels as servers with first-come, first-served queues.
#include "flash/flash.h"

#include <algorithm>
#include <cmath>

namespace twin {
namespace {

// Returns the times of the pages of a cell, lower page first, evenly spread around the mean.
std::vector<Nanoseconds> page_times(Nanoseconds mean, double spread, std::size_t pages) {
  std::vector<Nanoseconds> all;
  for (std::size_t page = 0; page < pages; ++page) {
    const double offset = pages == 1 ? 0 : 2 * static_cast<double>(page) / static_cast<double>(pages - 1) - 1;
    all.push_back(std::llround(static_cast<double>(mean) * (1 + spread * offset)));
  }
  return all;
}

// Returns a time changed by wear: `fresh` for wear 0, `fresh * when_worn` for wear 1, linear between and beyond.
Nanoseconds aged(Nanoseconds fresh, double when_worn, double wear) {
  return std::llround(static_cast<double>(fresh) * std::max(0.0, 1 + (when_worn - 1) * wear));
}

}  // namespace

Flash::Flash(const FlashParameters& parameters, const AgeingParameters& ageing, std::uint64_t seed, Counters& counters)
    : parameters_(parameters),
      counters_(counters),
      random_(seed),
      dies_(static_cast<std::size_t>(parameters.channels * parameters.dies_per_channel)),
      channel_free_(static_cast<std::size_t>(parameters.channels), 0) {
  const double wear = static_cast<double>(ageing.cycles) / static_cast<double>(ageing.rated_cycles);
  const std::size_t pages = static_cast<std::size_t>(parameters.cell) + 1;  // of a cell: one for each bit
  read_time_ = page_times(parameters.read_time, parameters.read_time_spread, pages);
  program_time_ = page_times(aged(parameters.program_time, ageing.program_time_when_worn, wear),
                             parameters.program_time_spread, pages);
  erase_time_ = aged(parameters.erase_time, ageing.erase_time_when_worn, wear);
  retry_threshold_ = threshold(parameters.read_retry_rate + ageing.retry_rate_when_worn * wear * wear);
  const auto interval = static_cast<std::uint64_t>(parameters.housekeeping_interval);
  for (Die& die : dies_) {
    if (interval > 0) die.housekeeping = static_cast<Nanoseconds>(random_.next() % interval);
  }
}

Nanoseconds Flash::array_read(Nanoseconds now, FlashPage page, ReadFor who) {
  ++counters_.page_reads;
  const Nanoseconds time = read_time(page.row);
  Die& die = dies_[page.die];
  const Nanoseconds in_turn = std::max({now, die.reads_until, die.work_until});
  if (who == ReadFor::kDrive) return die.work_until = after_housekeeping(in_turn, die) + time;
  if (parameters_.suspend_time == 0 || die.work_until <= std::max(now, die.reads_until)) {
    return die.reads_until = after_housekeeping(in_turn, die) + time;
  }
  const bool still_suspended = now <= die.reads_until && die.suspendable_from > die.reads_until &&
                               die.reads_until - die.suspended_since < parameters_.suspend_interval;
  Nanoseconds start = die.reads_until;
  Nanoseconds pause = time;
  if (!still_suspended) {
    start = std::max(now + parameters_.suspend_time, die.suspendable_from);
    if (start >= die.work_until) return die.reads_until = after_housekeeping(in_turn, die) + time;
    die.suspended_since = start;
    pause += parameters_.suspend_time;
    ++counters_.suspensions;
  }
  die.reads_until = start + time;
  die.suspendable_from = die.reads_until + parameters_.suspend_interval;
  die.work_until += pause;
  die.postponed += pause;
  return die.reads_until;
}

Nanoseconds Flash::transfer(Nanoseconds now, std::uint32_t die, std::uint64_t size_bytes) {
  Nanoseconds& free = channel_free_[die % channel_free_.size()];
  return free = std::max(free, now) + transfer_ns(size_bytes, parameters_.channel_rate);
}

std::uint64_t Flash::in_codewords(std::uint64_t size_bytes) const {
  const auto codeword = static_cast<std::uint64_t>(std::min(parameters_.codeword, parameters_.page));
  return (size_bytes + codeword - 1) / codeword * codeword;
}

Nanoseconds Flash::program(Nanoseconds now, FlashPage page, std::uint64_t size_bytes) {
  ++counters_.page_programs;
  const Nanoseconds in_register = transfer(now, page.die, size_bytes);
  Die& die = dies_[page.die];
  const Nanoseconds start = after_housekeeping(std::max({in_register, die.work_until, die.reads_until}), die);
  return die.work_until = start + program_time_[page.row % program_time_.size()];
}

Nanoseconds Flash::erase(Nanoseconds now, std::uint32_t die_number) {
  ++counters_.block_erases;
  Die& die = dies_[die_number];
  return die.work_until = after_housekeeping(std::max({now, die.work_until, die.reads_until}), die) + erase_time_;
}

// Returns when an operation that could begin at `ready` begins: later if the die does its housekeeping at that time.
Nanoseconds Flash::after_housekeeping(Nanoseconds ready, const Die& die) const {
  if (parameters_.housekeeping_interval == 0 || ready < die.housekeeping) return ready;
  const Nanoseconds since = (ready - die.housekeeping) % parameters_.housekeeping_interval;
  if (since >= parameters_.housekeeping_time) return ready;
  const Nanoseconds slice = parameters_.housekeeping_slice;
  const Nanoseconds let_in = slice == 0 ? parameters_.housekeeping_time : (since + slice - 1) / slice * slice;
  return ready + std::min(let_in, parameters_.housekeeping_time) - since;
}

// Returns the time to read a page of the row, including retries if it needs them.
Nanoseconds Flash::read_time(std::uint32_t row) {
  const Nanoseconds once = read_time_[row % read_time_.size()];
  if (retry_threshold_ == 0 || random_.next() >= retry_threshold_) return once;
  ++counters_.read_retries;
  return once * (1 + parameters_.read_retries);
}

}  // namespace twin
