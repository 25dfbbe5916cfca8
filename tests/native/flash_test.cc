// Dies and channels: whose turn it is, what a read may interrupt, what pages and wear change.
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

// One die, with a channel that takes next to no time.
FlashParameters one_die() {
  FlashParameters parameters;
  parameters.read_time = kRead;
  parameters.program_time = kProgram;
  parameters.erase_time = kErase;
  parameters.channel_rate = 100'000'000'000;
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

TEST_CASE("without suspension a read waits for the program or erase in front of it") {
  Bench bench(one_die());
  const Nanoseconds programmed = bench.program(0);
  CHECK(bench.read(10) == programmed + kRead);
  const Nanoseconds erased = bench.flash.erase(programmed + kRead, 0);
  CHECK(bench.read(erased - 5) == erased + kRead);
  CHECK(bench.flash.postponed_ns(0) == 0);
  CHECK(bench.counters.suspensions == 0);
}

TEST_CASE("a read for the host interrupts a program, which ends as much later") {
  FlashParameters parameters = one_die();
  parameters.suspend_time = 20 * kMicrosecond;
  parameters.suspend_interval = 200 * kMicrosecond;
  Bench bench(parameters);
  const Nanoseconds programmed = bench.program(0);
  const Nanoseconds now = 100 * kMicrosecond;
  CHECK(bench.read(now) == now + parameters.suspend_time + kRead);
  CHECK(bench.flash.postponed_ns(0) == parameters.suspend_time + kRead);
  // one that comes while the program is interrupted follows at once
  CHECK(bench.read(now + 1) == now + parameters.suspend_time + 2 * kRead);
  CHECK(bench.counters.suspensions == 1);
  // what the drive reads for itself takes its turn
  const Nanoseconds end = programmed + parameters.suspend_time + 2 * kRead;
  CHECK(bench.flash.array_read(now + 2, {0, 0}, ReadFor::kDrive) == end + kRead);
}

TEST_CASE("reads that never stop hold a program up for a limited time") {
  FlashParameters parameters = one_die();
  parameters.suspend_time = 20 * kMicrosecond;
  parameters.suspend_interval = 200 * kMicrosecond;
  Bench bench(parameters);
  Nanoseconds programmed = bench.program(0);
  Nanoseconds now = 0;
  int reads = 0;
  // the next read comes as soon as the last one is over
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

TEST_CASE("lower and upper pages differ, and their mean stays") {
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

TEST_CASE("retries come at the stated rate, and the same for the same seed") {
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

TEST_CASE("wear slows erasing down, speeds programming up and brings retries") {
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

TEST_CASE("housekeeping takes each die at its own times") {
  FlashParameters parameters = one_die();
  parameters.dies_per_channel = 4;
  parameters.housekeeping_interval = kMillisecond;
  parameters.housekeeping_time = 100 * kMicrosecond;
  Bench bench(parameters);
  std::vector<Nanoseconds> waited(4);
  std::vector<std::vector<int>> busy(4);
  for (int step = 0; step < 2000; ++step) {
    for (std::uint32_t die = 0; die < 4; ++die) {
      // each read alone, at another moment of the interval
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

TEST_CASE("what waits for a die is let in between the slices of its housekeeping") {
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
    // who comes just then is not sent to wait for another slice
    CHECK(Bench(parameters).read(begins) == begins + kRead);
  }
  CHECK(waited == doctest::Approx(200).epsilon(0.3));
}

TEST_CASE("a codeword is sent whole, and no more than a page") {
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
