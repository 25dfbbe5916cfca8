// Dies and channels: order of operations, suspension, pages of a cell, wear, housekeeping.
#include "flash/flash.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace twin {
namespace {

constexpr Nanoseconds kRead = 50 * kMicrosecond;
constexpr Nanoseconds kProgram = 1000 * kMicrosecond;
constexpr Nanoseconds kErase = 4000 * kMicrosecond;

// One die, and a channel that takes almost no time.
FlashParameters one_die() {
  FlashParameters parameters;
  parameters.read_time = kRead;
  parameters.program_time = kProgram;
  parameters.erase_time = kErase;
  parameters.channel_rate = 100'000'000'000;
  return parameters;
}

FlashParameters suspendable_die() {
  FlashParameters parameters = one_die();
  parameters.suspend_time = 20 * kMicrosecond;
  parameters.suspend_interval = 200 * kMicrosecond;
  return parameters;
}

struct Bench {
  explicit Bench(const FlashParameters& parameters, const AgeingParameters& ageing = {}, std::uint64_t seed = 1)
      : flash(parameters, ageing, seed, counters) {}
  Nanoseconds read(Nanoseconds now, std::uint32_t row = 0) { return flash.array_read(now, {0, row}, ReadFor::kHost); }
  Nanoseconds program(Nanoseconds now, std::uint32_t row = 0) { return flash.program(now, {0, row}, 1); }
  Counters counters;
  Flash flash;
};

TEST_CASE("without suspension a read waits for an earlier program or erase") {
  Bench bench(one_die());
  const Nanoseconds programmed = bench.program(0);
  CHECK(bench.read(10) == programmed + kRead);
  const Nanoseconds erased = bench.flash.erase(programmed + kRead, 0);
  CHECK(bench.read(erased - 5) == erased + kRead);
  CHECK(bench.flash.postponed_ns(0) == 0);
  CHECK(bench.counters.suspensions == 0);
}

TEST_CASE("a read for the host suspends a program, which ends later by the time of the suspension") {
  const FlashParameters parameters = suspendable_die();
  Bench bench(parameters);
  const Nanoseconds programmed = bench.program(0);
  const Nanoseconds now = 100 * kMicrosecond;
  CHECK(bench.read(now) == now + parameters.suspend_time + kRead);
  CHECK(bench.flash.postponed_ns(0) == parameters.suspend_time + kRead);
  // a read that arrives during the suspension follows at once
  CHECK(bench.read(now + 1) == now + parameters.suspend_time + 2 * kRead);
  CHECK(bench.counters.suspensions == 1);
  // a read for the drive itself waits
  const Nanoseconds end = programmed + parameters.suspend_time + 2 * kRead;
  CHECK(bench.flash.array_read(now + 2, {0, 0}, ReadFor::kDrive) == end + kRead);
}

TEST_CASE("continuous reads delay a program for a limited time") {
  const FlashParameters parameters = suspendable_die();
  Bench bench(parameters);
  Nanoseconds programmed = bench.program(0);
  Nanoseconds now = 0;
  int reads = 0;
  // each read arrives when the previous one is complete
  for (Nanoseconds postponed = 0; now < programmed; ++reads) {
    now = bench.read(now);
    programmed += bench.flash.postponed_ns(0) - postponed;
    postponed = bench.flash.postponed_ns(0);
    REQUIRE(reads < 1000);
  }
  CHECK(bench.counters.suspensions >= 3);
  CHECK(programmed < 4 * kProgram);
  CHECK(programmed > kProgram);
}

TEST_CASE("lower and upper pages differ in read time, but their mean does not change") {
  FlashParameters parameters = one_die();
  parameters.read_time_spread = 0.2;
  parameters.program_time_spread = 0.5;
  const std::vector<std::pair<CellType, std::vector<double>>> expected = {
      {CellType::kSlc, {1}}, {CellType::kMlc, {0.8, 1.2}}, {CellType::kTlc, {0.8, 1, 1.2}}};
  for (const auto& [cell, factors] : expected) {
    parameters.cell = cell;
    Bench bench(parameters);
    Nanoseconds now = 0;
    for (std::uint32_t row = 0; row < 6; ++row) {
      const Nanoseconds begin = now;
      now = bench.read(begin, row);
      CHECK(now - begin == static_cast<Nanoseconds>(kRead * factors[row % factors.size()]));
    }
  }
}

TEST_CASE("retries have the given rate, and are the same for the same seed") {
  FlashParameters parameters = one_die();
  parameters.read_retry_rate = 0.01;
  parameters.read_retries = 3;
  const auto latencies = [&](std::uint64_t seed) {
    Bench bench(parameters, {}, seed);
    std::vector<Nanoseconds> all;
    for (int i = 0; i < 100'000; ++i) all.push_back(bench.read(i * kSecond) - i * kSecond);
    CHECK(bench.counters.read_retries == static_cast<std::uint64_t>(std::count(all.begin(), all.end(), 4 * kRead)));
    CHECK(bench.counters.read_retries == doctest::Approx(1000).epsilon(0.1));
    return all;
  };
  CHECK(latencies(1) == latencies(1));
  CHECK(latencies(1) != latencies(2));
}

TEST_CASE("wear changes the times of erase and program, and causes retries") {
  AgeingParameters worn;
  worn.cycles = worn.rated_cycles = 3000;
  worn.retry_rate_when_worn = 0.5;
  worn.erase_time_when_worn = 1.5;
  worn.program_time_when_worn = 0.8;
  Bench bench(one_die(), worn);
  CHECK(bench.flash.erase(0, 0) == kErase * 3 / 2);
  CHECK(bench.program(kSecond) - kSecond == doctest::Approx(static_cast<double>(kProgram) * 0.8).epsilon(1e-4));
  for (int i = 2; i < 1002; ++i) bench.read(i * kSecond);
  CHECK(bench.counters.read_retries == doctest::Approx(500).epsilon(0.1));
  worn.cycles = 0;
  Bench fresh(one_die(), worn);
  CHECK(fresh.flash.erase(0, 0) == kErase);
}

TEST_CASE("each die has its own times of housekeeping") {
  FlashParameters parameters = one_die();
  parameters.dies_per_channel = 4;
  parameters.housekeeping_interval = kMillisecond;
  parameters.housekeeping_time = 100 * kMicrosecond;
  Bench bench(parameters);
  std::vector<Nanoseconds> waited(4);
  std::vector<std::vector<int>> busy(4);
  for (int step = 0; step < 2000; ++step) {
    for (std::uint32_t die = 0; die < 4; ++die) {
      // single reads, at different times of the interval
      const Nanoseconds now = step * (kMillisecond + 500) + 1;
      const Nanoseconds wait = bench.flash.array_read(now, {die, 0}, ReadFor::kHost) - now - kRead;
      CHECK(wait >= 0);
      CHECK(wait <= parameters.housekeeping_time);
      waited[die] += wait > 0;
      if (wait > 0) busy[die].push_back(step);
    }
  }
  for (const Nanoseconds each : waited) CHECK(each == doctest::Approx(200).epsilon(0.3));
  CHECK(busy[0] != busy[1]);
}

TEST_CASE("waiting operations are let in between the slices of housekeeping") {
  FlashParameters parameters = one_die();
  parameters.housekeeping_interval = kMillisecond;
  parameters.housekeeping_time = 100 * kMicrosecond;
  parameters.housekeeping_slice = 30 * kMicrosecond;
  Bench bench(parameters);
  int waited = 0;
  for (int step = 0; step < 2000; ++step) {
    const Nanoseconds now = step * (kMillisecond + 500) + 1;
    const Nanoseconds begins = bench.read(now) - kRead;
    CHECK(begins - now <= parameters.housekeeping_slice);
    if (begins == now) continue;
    ++waited;
    // an operation that arrives at the end of the slice does not wait for another one
    CHECK(Bench(parameters).read(begins) == begins + kRead);
  }
  CHECK(waited == doctest::Approx(200).epsilon(0.3));
}

TEST_CASE("codewords are transferred completely, and are at most a page") {
  FlashParameters parameters = one_die();
  parameters.page = 16384;
  CHECK(Bench(parameters).flash.in_codewords(512) == 512);
  parameters.codeword = 4096;
  CHECK(Bench(parameters).flash.in_codewords(512) == 4096);
  CHECK(Bench(parameters).flash.in_codewords(4608) == 8192);
  parameters.codeword = 1 << 20;
  CHECK(Bench(parameters).flash.in_codewords(512) == 16384);
  CHECK(Bench(parameters).flash.in_codewords(16384) == 16384);
}

}  // namespace
}  // namespace twin
