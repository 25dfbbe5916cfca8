// Dies and channels as servers.
#include "flash/flash.h"

#include <algorithm>

namespace twin {

Flash::Flash(const FlashParameters& parameters, Counters& counters)
    : parameters_(parameters),
      counters_(counters),
      die_free_(static_cast<std::size_t>(parameters.channels * parameters.dies_per_channel), 0),
      channel_free_(static_cast<std::size_t>(parameters.channels), 0) {}

Nanoseconds Flash::array_read(Nanoseconds now, std::uint32_t die) {
  ++counters_.page_reads;
  Nanoseconds& free = die_free_[die];
  return free = std::max(free, now) + parameters_.read_time;
}

Nanoseconds Flash::data_out(Nanoseconds now, std::uint32_t die, std::uint64_t size_bytes) {
  Nanoseconds& free = channel_free_[channel_of(die)];
  return free = std::max(free, now) + transfer_ns(size_bytes, parameters_.channel_rate);
}

Nanoseconds Flash::program(Nanoseconds now, std::uint32_t die, std::uint64_t size_bytes) {
  ++counters_.page_programs;
  Nanoseconds& channel = channel_free_[channel_of(die)];
  channel = std::max(channel, now) + transfer_ns(size_bytes, parameters_.channel_rate);
  Nanoseconds& free = die_free_[die];
  return free = std::max(free, channel) + parameters_.program_time;
}

Nanoseconds Flash::erase(Nanoseconds now, std::uint32_t die) {
  ++counters_.block_erases;
  Nanoseconds& free = die_free_[die];
  return free = std::max(free, now) + parameters_.erase_time;
}

}  // namespace twin
