// The flash translation layers: placement checked against a reference model, times, merges, garbage collection.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "drive/parameters.h"
#include "ftl/layout.h"
#include "ftl/log_block_ftl.h"
#include "ftl/mapping_cache.h"
#include "ftl/page_ftl.h"

namespace twin {
namespace {

// Parameters of a drive with 16 MiB on 8 dies and 4 channels, and blocks of 16 pages of 4 KiB.
Parameters small_drive(InitialState state) {
  Parameters parameters;
  parameters.capacity.size = 16 << 20;
  parameters.flash.channels = 4;
  parameters.flash.dies_per_channel = 2;
  parameters.flash.pages_per_block = 16;
  parameters.flash.read_time = 25'000;
  parameters.flash.program_time = 200'000;
  parameters.flash.erase_time = 1'500'000;
  parameters.flash.channel_rate = 40'000'000;
  parameters.ftl.initial_state = state;
  parameters.ftl.over_provisioning = 0.28;
  parameters.page_mapping.background_gc_reserve = 5;
  return parameters;
}

Parameters page_drive(InitialState state, std::int64_t planes = 1, std::int64_t unit = 4096) {
  Parameters parameters = small_drive(state);
  parameters.ftl.mapping = Mapping::kPage;
  parameters.flash.planes = planes;
  parameters.page_mapping.unit = unit;
  return parameters;
}

Parameters log_drive(InitialState state, std::int64_t blocks_per_log, std::int64_t group = 4, std::int64_t planes = 1) {
  Parameters parameters = small_drive(state);
  parameters.ftl.mapping = Mapping::kLogBlock;
  parameters.flash.planes = planes;
  parameters.log_mapping.log_blocks = 4;
  parameters.log_mapping.blocks_per_log = blocks_per_log;
  parameters.log_mapping.group = group;
  return parameters;
}

// The internals of both FTLs that tests need.
std::uint32_t block_count(const auto& ftl) { return ftl.shape().blocks; }
std::uint32_t block_units(const PageFtl& ftl) { return ftl.shape().block_units(); }
std::uint32_t block_units(const LogBlockFtl& ftl) { return ftl.shape().block_units; }
std::uint32_t valid_units(const PageFtl& ftl, std::uint32_t block) { return ftl.blocks().valid(block); }
std::uint32_t valid_units(const LogBlockFtl& ftl, std::uint32_t block) { return ftl.valid(block); }
std::uint32_t erase_count(const PageFtl& ftl, std::uint32_t block) { return ftl.blocks().erase_count(block); }
std::uint32_t erase_count(const LogBlockFtl& ftl, std::uint32_t block) { return ftl.erase_count(block); }
bool owns(const PageFtl&, std::uint32_t, std::uint32_t) { return true; }
bool owns(const LogBlockFtl& ftl, std::uint32_t page, std::uint32_t unit) { return ftl.unit_at(page) == unit; }

// An FTL without a controller. The bench is its client.
template <class F>
class Bench final : public FtlClient {
 public:
  explicit Bench(const Parameters& parameters)
      : parameters_(parameters),
        ftl_(parameters.capacity.size, parameters.flash, parameters.ageing, 1, parameters.ftl, mapping_of(parameters),
             events_, *this, counters_) {}

  void read_progress(Nanoseconds when, std::uint64_t token, std::uint64_t size_bytes) override {
    arrived_bytes += size_bytes;
    if (reads_in_progress > 0) {
      --reads_in_progress;
      ftl_.read(when, token % units(), 1, unit_bytes(), token);
    }
  }
  void read_done(Nanoseconds when, std::uint64_t) override {
    done = when;
    ++reads_done;
  }
  void write_done(Nanoseconds when, std::uint64_t) override {
    done = when;
    ++writes_done;
  }

  void run() {
    while (events_.next() != kNever) {
      now = events_.next();
      events_.run_next();
    }
  }

  // Returns the time of a read if nothing else is outstanding; 0 if it needs no flash.
  Nanoseconds read(std::uint64_t unit, std::uint32_t count = 1) {
    if (!ftl_.read(now, unit, count, count * unit_bytes(), 1)) return 0;
    const Nanoseconds begin = now;
    run();
    return done - begin;
  }

  // Returns the time to write units if nothing else is outstanding.
  Nanoseconds write(const std::vector<std::uint64_t>& list) {
    const Nanoseconds begin = now;
    for (std::size_t first = 0; first < list.size(); first += ftl_.properties().program_units) {
      const auto count = std::min<std::size_t>(ftl_.properties().program_units, list.size() - first);
      ftl_.write(now, std::span(list).subspan(first, count), 2);
    }
    run();
    return done - begin;
  }

  void write_range(std::uint64_t first, std::uint64_t count) {
    std::vector<std::uint64_t> list;
    for (std::uint64_t unit = first; unit < first + count; ++unit) list.push_back(unit);
    write(list);
  }

  void idle(Nanoseconds length) {
    now += length;
    ftl_.idle(now);
  }

  [[nodiscard]] std::uint64_t unit_bytes() const { return ftl_.properties().unit_bytes; }
  [[nodiscard]] std::uint32_t units() const {
    return static_cast<std::uint32_t>(parameters_.capacity.size / ftl_.properties().unit_bytes);
  }
  [[nodiscard]] F& ftl() { return ftl_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

  Nanoseconds now = 0, done = 0;
  std::uint64_t arrived_bytes = 0, reads_done = 0, writes_done = 0;
  int reads_in_progress = 0;  // reads to start from within read_progress()

 private:
  // Each FTL is given only its own group of parameters.
  static const auto& mapping_of(const Parameters& parameters) {
    if constexpr (std::is_same_v<F, PageFtl>) {
      return parameters.page_mapping;
    } else {
      return parameters.log_mapping;
    }
  }

  Parameters parameters_;
  EventQueue events_;
  Counters counters_;
  F ftl_;
};

// Checks the placement of all units after each operation. A programmed physical page cannot be programmed again until
// its block is erased. A unit found on a new page has been programmed there; all such programs must be accounted for by
// writes of the host and moves.
template <class F>
class Reference {
 public:
  explicit Reference(Bench<F>& bench)
      : bench_(bench),
        block_units_(block_units(bench.ftl())),
        physical_page_(bench.units()),
        mapped_(bench.units()),
        written_(bench.units()),
        programmed_(static_cast<std::size_t>(block_count(bench.ftl())) * block_units_, -1),
        erases_(block_count(bench.ftl())) {
    for (std::uint32_t unit = 0; unit < bench.units(); ++unit) {
      physical_page_[unit] = bench.ftl().physical_page_of(unit);
      mapped_[unit] = physical_page_[unit] != kNoUnit;
      if (mapped_[unit]) programmed_[physical_page_[unit]] = 0;
    }
  }

  void write(const std::vector<std::uint64_t>& units) {
    for (const std::uint64_t unit : units) mapped_[unit] = 1;
    for (const std::uint64_t unit : units) written_[unit] = 1;
    check();
    for (const std::uint64_t unit : units) written_[unit] = 0;
  }

  void discard(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t unit = first; unit < first + count; ++unit) mapped_[unit] = 0;
    check();
  }

  // `many_moves` is true if a unit may have been moved away and back to its page since the last check.
  void check(bool many_moves = false) {
    F& ftl = bench_.ftl();
    std::vector<std::uint32_t> valid(erases_.size());
    std::vector<std::uint8_t> taken(programmed_.size());
    std::uint64_t programs = 0;
    for (std::uint32_t unit = 0; unit < physical_page_.size(); ++unit) {
      const std::uint32_t physical_page = ftl.physical_page_of(unit);
      wrong_mapping += (physical_page != kNoUnit) != mapped_[unit];
      const std::uint32_t before = std::exchange(physical_page_[unit], physical_page);
      if (physical_page == kNoUnit) continue;
      const std::uint32_t block = physical_page / block_units_;
      ++valid[block];
      shared_pages += taken[physical_page];
      taken[physical_page] = 1;
      not_owned += !owns(ftl, physical_page, unit);
      const auto erases = static_cast<std::int64_t>(erase_count(ftl, block));
      const bool erased = erases != erases_[block];
      if (physical_page == before && !written_[unit] && !(erased && many_moves)) {
        erased_valid += erased;
        continue;
      }
      ++programs;
      programmed_twice += programmed_[physical_page] >= erases;
      programmed_[physical_page] = erases;
    }
    for (std::uint32_t block = 0; block < valid.size(); ++block) {
      wrong_valid += valid[block] != valid_units(ftl, block);
      erases_[block] = erase_count(ftl, block);
    }
    const Counters& now = bench_.counters();
    unaccounted += programs > now.units_host - last_.units_host + now.units_moved - last_.units_moved;
    unaccounted += now.units_programmed != now.units_host + now.units_moved + now.units_padding;
    last_ = now;
  }

  void require_no_errors() const {
    REQUIRE(wrong_mapping == 0);
    REQUIRE(shared_pages == 0);
    REQUIRE(not_owned == 0);
    REQUIRE(erased_valid == 0);
    REQUIRE(programmed_twice == 0);
    REQUIRE(wrong_valid == 0);
    REQUIRE(unaccounted == 0);
  }

  [[nodiscard]] bool mapped(std::uint64_t unit) const { return mapped_[unit] != 0; }

 private:
  Bench<F>& bench_;
  std::uint32_t block_units_;
  std::vector<std::uint32_t> physical_page_;
  std::vector<std::uint8_t> mapped_;   // by unit; bytes, because sanitizers are slow with bits
  std::vector<std::uint8_t> written_;  // by unit: whether it was written since the last check
  std::vector<std::int64_t>
      programmed_;  // by physical page: erase count of its block when it was programmed; -1: never
  std::vector<std::int64_t> erases_;
  Counters last_;
  std::uint64_t wrong_mapping = 0, shared_pages = 0, not_owned = 0, erased_valid = 0, programmed_twice = 0,
                wrong_valid = 0, unaccounted = 0;
};

// Runs random writes, sequential writes, reads, discards and pauses.
template <class F>
void run_against_reference(const Parameters& parameters, std::uint64_t seed, int steps) {
  Bench<F> bench(parameters);
  Reference<F> reference(bench);
  reference.check();
  reference.require_no_errors();
  std::mt19937_64 random(seed);
  const std::uint64_t units = bench.units();
  std::uint64_t cursor = 0;
  std::uint64_t too_fast = 0, wrong_reads = 0, taken = 0, writes = 0;
  const Nanoseconds least_read =
      parameters.flash.read_time + transfer_ns(bench.unit_bytes(), parameters.flash.channel_rate);
  // with a partial map, even a unit that is not mapped may need a page of the map
  const bool map_in_memory = parameters.page_mapping.map_cache_coverage == 1;
  for (int step = 0; step < steps; ++step) {
    const std::uint64_t kind = random() % 100;
    if (kind < 70) {
      std::vector<std::uint64_t> list;
      const std::uint64_t count = 1 + random() % bench.ftl().properties().program_units;
      if (kind < 35) {
        for (std::uint64_t i = 0; i < count; ++i) list.push_back(random() % units);
        if (random() % 8 == 0) list.back() = list.front();  // a unit twice in one write
      } else {
        if (random() % 100 == 0) cursor = random() % units / 64 * 64;
        for (std::uint64_t i = 0; i < count; ++i) list.push_back((cursor + i) % units);
        cursor = (cursor + count) % units;
      }
      too_fast += bench.write(list) < parameters.flash.program_time;
      taken += list.size();
      ++writes;
      reference.write(list);
    } else if (kind < 90) {
      const std::uint64_t unit = random() % (units - 8);
      const auto count = static_cast<std::uint32_t>(1 + random() % 8);
      bool mapped = false;
      for (std::uint64_t each = unit; each < unit + count; ++each) mapped |= reference.mapped(each);
      const std::uint64_t sensed = bench.counters().page_reads;
      const Nanoseconds latency = bench.read(unit, count);
      wrong_reads += latency == 0 ? mapped : map_in_memory && !mapped;
      wrong_reads += map_in_memory && !mapped && bench.counters().page_reads != sensed;
      too_fast += mapped && latency < least_read;
    } else if (kind < 97) {
      const std::uint64_t count = 1 + random() % (random() % 8 == 0 ? 600 : 10);
      const std::uint64_t unit = random() % (units - count);
      bench.ftl().discard(bench.now, unit, count);
      reference.discard(unit, count);
    } else {
      bench.idle(kSecond);
      bench.run();
      reference.check(true);
    }
  }
  CHECK(too_fast == 0);
  CHECK(wrong_reads == 0);
  CHECK(bench.writes_done == writes);
  CHECK(bench.counters().units_host == taken);
  reference.require_no_errors();
}

constexpr InitialState kStates[] = {InitialState::kFresh, InitialState::kSequential, InitialState::kRandom};

TEST_CASE("page mapping finds every unit where the newest write stored it") {
  for (const InitialState state : kStates) {
    CAPTURE(static_cast<int>(state));
    run_against_reference<PageFtl>(page_drive(state), 1, 4000);
    run_against_reference<PageFtl>(page_drive(state, 2), 2, 3000);
    Parameters parameters = page_drive(state, 2, 2048);
    parameters.page_mapping.background_gc_idle = kMillisecond;
    run_against_reference<PageFtl>(parameters, 3, 3000);
    parameters = page_drive(state);
    parameters.page_mapping.map_cache_coverage = 0.05;
    run_against_reference<PageFtl>(parameters, 4, 3000);
    parameters = page_drive(state, 2);
    parameters.page_mapping.gc_whole_blocks = true;
    run_against_reference<PageFtl>(parameters, 8, 3000);
    parameters = page_drive(state, 2);
    parameters.ftl.initial_extent = (5 << 20) + 3 * 4096;
    run_against_reference<PageFtl>(parameters, 10, 3000);
  }
}

TEST_CASE("log-block mapping finds every unit where the newest write stored it") {
  for (const InitialState state : kStates) {
    for (const std::int64_t sharers : {1, 3, 10'000}) {
      CAPTURE(static_cast<int>(state));
      CAPTURE(sharers);
      run_against_reference<LogBlockFtl>(log_drive(state, sharers), 5, 3000);
      run_against_reference<LogBlockFtl>(log_drive(state, sharers, 1, 2), 6, 3000);
      Parameters parameters = log_drive(state, sharers, 8);
      parameters.log_mapping.background_merge_idle = kMillisecond;
      parameters.capacity.size = (16 << 20) - 5 * 4096;  // the last data block is not complete
      run_against_reference<LogBlockFtl>(parameters, 7, 3000);
      parameters = log_drive(state, sharers, 1, 2);
      parameters.log_mapping.spare_logs = 2;
      run_against_reference<LogBlockFtl>(parameters, 9, 3000);
      parameters.ftl.initial_extent = (5 << 20) + 3 * 4096;
      run_against_reference<LogBlockFtl>(parameters, 11, 3000);
    }
  }
}

// Returns the number of units that a new drive has mapped. They must be its first units.
template <class F>
std::uint32_t mapped_at_first(Parameters parameters, std::int64_t extent_bytes) {
  parameters.ftl.initial_extent = extent_bytes;
  Bench<F> bench(parameters);
  std::uint32_t mapped = 0;
  while (mapped < bench.units() && bench.ftl().physical_page_of(mapped) != kNoUnit) ++mapped;
  std::uint64_t wrong = 0;
  for (std::uint32_t unit = mapped; unit < bench.units(); ++unit) {
    wrong += bench.ftl().physical_page_of(unit) != kNoUnit;
  }
  std::uint64_t valid = 0;
  for (std::uint32_t block = 0; block < block_count(bench.ftl()); ++block) valid += valid_units(bench.ftl(), block);
  CHECK(wrong == 0);
  CHECK(valid == mapped);
  return mapped;
}

TEST_CASE("the initial state covers the initial extent, and the complete drive without one") {
  for (const InitialState state : {InitialState::kSequential, InitialState::kRandom}) {
    CAPTURE(static_cast<int>(state));
    // by initial_extent in bytes: units of 4 KiB; the last of them may be written in part
    for (const auto& [extent, units] :
         {std::pair{0, 4096}, {1 << 30, 4096}, {5 << 20, 1280}, {(5 << 20) + 512, 1281}, {1, 1}}) {
      CAPTURE(extent);
      CHECK(mapped_at_first<PageFtl>(page_drive(state, 2), extent) == units);
      CHECK(mapped_at_first<LogBlockFtl>(log_drive(state, 3, 1, 2), extent) == units);
    }
  }
  CHECK(mapped_at_first<PageFtl>(page_drive(InitialState::kFresh), 5 << 20) == 0);
}

// Runs reads and writes. Returns their times and all counters.
template <class F>
std::vector<std::int64_t> run_mixture(const Parameters& parameters) {
  Bench<F> bench(parameters);
  std::mt19937_64 random(11);
  std::vector<std::int64_t> values;
  for (int step = 0; step < 5000; ++step) {
    const std::uint64_t unit = random() % bench.units();
    values.push_back(step % 3 == 0 ? bench.read(unit) : bench.write({unit}));
  }
  visit_counters(bench.counters(),
                 [&](const char*, std::uint64_t value) { values.push_back(static_cast<std::int64_t>(value)); });
  return values;
}

TEST_CASE("equal calls give equal times and counters") {
  const Parameters page = page_drive(InitialState::kRandom);
  CHECK(run_mixture<PageFtl>(page) == run_mixture<PageFtl>(page));
  for (const std::int64_t sharers : {1, 100}) {
    const Parameters log = log_drive(InitialState::kRandom, sharers);
    CHECK(run_mixture<LogBlockFtl>(log) == run_mixture<LogBlockFtl>(log));
  }
}

template <class F>
void check_latencies(Parameters parameters) {
  parameters.flash.page = 8192;
  parameters.page_mapping.unit = 8192;
  Bench<F> bench(parameters);
  CHECK(bench.read(5) == parameters.flash.read_time + transfer_ns(8192, parameters.flash.channel_rate));
  CHECK(bench.arrived_bytes == 8192);
  CHECK(bench.write({5}) >= parameters.flash.program_time + transfer_ns(8192, parameters.flash.channel_rate));
  bench.ftl().discard(bench.now, 5, 1);
  CHECK(bench.read(5) == 0);
  CHECK(bench.counters().units_discarded == 1);
  // the client starts reads from within read_progress()
  bench.reads_in_progress = 5000;
  bench.read(6);
  CHECK(bench.reads_done == 5002);
}

TEST_CASE("a read takes array read and transfer, a write transfer and program, a read of a discarded unit no time") {
  check_latencies<PageFtl>(page_drive(InitialState::kSequential));
  check_latencies<LogBlockFtl>(log_drive(InitialState::kSequential, 1));
  check_latencies<LogBlockFtl>(log_drive(InitialState::kSequential, 100));
}

double write_amplification(const Counters& before, const Counters& after) {
  return static_cast<double>(after.units_programmed - before.units_programmed) /
         static_cast<double>(after.units_host - before.units_host);
}

// Overwrites random units, a tenth of the drive at a time. Returns the write amplification of each tenth.
std::vector<double> amplification_of(const Parameters& parameters, int tenths) {
  Bench<PageFtl> bench(parameters);
  std::mt19937_64 random(5);
  std::vector<double> amplification;
  for (int part = 0; part < tenths; ++part) {
    const Counters before = bench.counters();
    for (std::uint32_t i = 0; i < bench.units() / 10; ++i) bench.write({random() % bench.units()});
    amplification.push_back(write_amplification(before, bench.counters()));
  }
  return amplification;
}

TEST_CASE("page mapping: the random initial state equals the steady state of random overwrites") {
  Parameters parameters = page_drive(InitialState::kRandom);
  parameters.capacity.size = 256 << 20;
  parameters.flash.pages_per_block = 64;
  const std::vector<double> parts = amplification_of(parameters, 30);
  const double steady = std::accumulate(parts.begin() + 20, parts.end(), 0.0) / 10;
  MESSAGE("write amplification: first " << parts.front() << ", steady " << steady);
  CHECK(parts.front() == doctest::Approx(steady).epsilon(0.10));
}

TEST_CASE("write amplification is constant, and lower with more spare space") {
  Parameters parameters = page_drive(InitialState::kRandom);
  parameters.capacity.size = 1 << 30;
  parameters.flash.channels = 16;
  parameters.flash.dies_per_channel = 1;
  parameters.flash.pages_per_block = 128;
  for (const GcPolicy policy : {GcPolicy::kGreedy, GcPolicy::kCostBenefit}) {
    parameters.page_mapping.gc_policy = policy;
    double last = 1e9;
    for (const double over_provisioning : {0.12, 0.28, 0.4}) {
      parameters.ftl.over_provisioning = over_provisioning;
      const std::vector<double> parts = amplification_of(parameters, 20);
      const auto [least, most] = std::minmax_element(parts.begin() + 10, parts.end());
      MESSAGE("over-provisioning " << over_provisioning << ": write amplification " << *least << " to " << *most);
      CHECK(*most < 1.1 * *least);
      CHECK(*most < last);
      last = *least;
    }
  }
}

TEST_CASE("victims with hardly a valid unit leave erased blocks in reserve") {
  Parameters parameters = page_drive(InitialState::kSequential, 4);
  parameters.capacity.size = 256 << 20;
  parameters.flash.channels = 2;
  parameters.flash.dies_per_channel = 1;
  parameters.flash.pages_per_block = 64;
  Bench<PageFtl> bench(parameters);
  // one unit of each block of the first die stays valid, so that a row of moved units comes from many blocks
  for (std::uint32_t unit = 0; unit < bench.units(); ++unit) {
    const std::uint32_t page = bench.ftl().physical_page_of(unit);
    const BlockShape& shape = bench.ftl().shape();
    if (page % shape.block_units() != 0 || shape.die_of(page / shape.block_units()) != 0) {
      bench.ftl().discard(bench.now, unit, 1);
    }
  }
  std::mt19937_64 random(29);
  for (std::uint32_t step = 0; step < 4 * bench.units(); ++step) bench.write({random() % (bench.units() / 4)});
  CHECK(bench.ftl().blocks().free_blocks() > 0);
}

TEST_CASE("static data are moved only for wear levelling") {
  for (const std::int64_t spread : {0, 8}) {
    Parameters parameters = page_drive(InitialState::kSequential);
    parameters.page_mapping.wear_spread = spread;
    Bench<PageFtl> bench(parameters);
    std::mt19937_64 random(17);
    // nine tenths of the units are static
    for (int step = 0; step < 600'000; ++step) bench.write({random() % (bench.units() / 10)});
    std::uint32_t least = ~0U;
    std::uint32_t most = 0;
    for (std::uint32_t block = 0; block < bench.ftl().shape().blocks; ++block) {
      least = std::min(least, bench.ftl().blocks().erase_count(block));
      most = std::max(most, bench.ftl().blocks().erase_count(block));
    }
    MESSAGE("wear spread " << spread << ": erases from " << least << " to " << most);
    CHECK((bench.counters().wear_moves > 0) == (spread > 0));
    CHECK((least > 0) == (spread > 0));
  }
}

template <class F>
double sequential_amplification(const Parameters& parameters) {
  Bench<F> bench(parameters);
  bench.write_range(0, bench.units());
  const Counters before = bench.counters();
  bench.write_range(0, bench.units());
  return write_amplification(before, bench.counters());
}

TEST_CASE("sequential overwrites move almost no units") {
  CHECK(sequential_amplification<PageFtl>(page_drive(InitialState::kSequential)) < 1.02);
  CHECK(sequential_amplification<LogBlockFtl>(log_drive(InitialState::kSequential, 1)) == 1);
  CHECK(sequential_amplification<LogBlockFtl>(log_drive(InitialState::kSequential, 100)) == 1);
  CHECK(sequential_amplification<LogBlockFtl>(log_drive(InitialState::kFresh, 100)) == 1);
}

TEST_CASE("a drive with 16 channels, one die on each and 2 KiB pages works") {
  Parameters parameters = page_drive(InitialState::kFresh, 1, 2048);
  parameters.capacity.size = 128 << 20;
  parameters.flash.channels = 16;
  parameters.flash.dies_per_channel = 1;
  parameters.flash.page = 2048;
  parameters.flash.pages_per_block = 64;
  parameters.page_mapping.gc_reserve = 8;
  parameters.page_mapping.background_gc_reserve = 16;
  parameters.page_mapping.background_gc_idle = kMillisecond;
  Bench<PageFtl> bench(parameters);
  std::mt19937_64 random(13);
  bench.write_range(0, bench.units());
  for (int step = 0; step < 100'000; ++step) bench.write({random() % bench.units()});
  CHECK(bench.counters().units_moved > 0);
  const std::uint64_t erases = bench.counters().block_erases;
  bench.idle(kSecond);
  bench.run();
  CHECK(bench.counters().gc_runs_background == 1);
  CHECK(bench.counters().block_erases > erases);
  // up to two of the 16 blocks for each die are being filled
  CHECK(bench.ftl().blocks().free_blocks() >= 14 * 16);
}

TEST_CASE("page mapping: a call of idle() while a step is scheduled continues background collection") {
  Parameters parameters = page_drive(InitialState::kRandom);
  parameters.page_mapping.background_gc_reserve = 6;
  Bench<PageFtl> bench(parameters);
  bench.idle(kSecond);
  const std::uint64_t unit[] = {7};
  bench.ftl().write(bench.now, unit, 1);  // before the first step
  bench.idle(0);
  bench.run();
  CHECK(bench.ftl().blocks().free_blocks() >= 4 * bench.ftl().shape().dies);
}

// ---- merges

// One die, 8 pages to a block, 16 data blocks.
Parameters tiny_drive(InitialState state, std::int64_t log_blocks, std::int64_t blocks_per_log) {
  Parameters parameters = log_drive(state, blocks_per_log, 1);
  parameters.capacity.size = 16 * 8 * 4096;
  parameters.flash.channels = 1;
  parameters.flash.dies_per_channel = 1;
  parameters.flash.pages_per_block = 8;
  parameters.ftl.over_provisioning = 0.5;
  parameters.log_mapping.log_blocks = log_blocks;
  return parameters;
}

struct Expected {
  std::uint64_t switches, partials, fulls, moved, padding, erases;
};

void check_merges(const Counters& counters, const Expected& expected) {
  CHECK(counters.switch_merges == expected.switches);
  CHECK(counters.partial_merges == expected.partials);
  CHECK(counters.full_merges == expected.fulls);
  CHECK(counters.units_moved == expected.moved);
  CHECK(counters.units_padding == expected.padding);
  CHECK(counters.block_erases == expected.erases);
  CHECK(counters.units_programmed == counters.units_host + expected.moved + expected.padding);
}

TEST_CASE("the kind of merge of an unshared log block depends on the order of its pages") {
  Bench<LogBlockFtl> bench(tiny_drive(InitialState::kSequential, 2, 1));
  bench.write_range(0, 8);  // all of block 0 in order
  check_merges(bench.counters(), {1, 0, 0, 0, 0, 1});
  bench.write_range(8, 3);  // the beginning of block 1
  bench.write({16 + 3});    // block 2
  check_merges(bench.counters(), {1, 0, 0, 0, 0, 1});
  bench.write({24 + 5});  // block 3 needs the log of block 1
  check_merges(bench.counters(), {1, 1, 0, 5, 0, 2});
  bench.write({32 + 1});  // block 4 needs the log of block 2
  check_merges(bench.counters(), {1, 1, 1, 13, 0, 4});
  bench.write({24 + 1});  // now the log of block 3 is the younger one
  bench.write({40 + 1});  // so the log of block 4 is merged
  check_merges(bench.counters(), {1, 1, 2, 21, 0, 6});
  for (int i = 0; i < 6; ++i) bench.write({24 + 2});
  check_merges(bench.counters(), {1, 1, 2, 21, 0, 6});
  bench.write({24 + 2});  // block 3's log is full
  check_merges(bench.counters(), {1, 1, 3, 29, 0, 8});
}

TEST_CASE("shared log blocks are merged data block by data block, streams separately") {
  Bench<LogBlockFtl> bench(tiny_drive(InitialState::kSequential, 3, 100));
  bench.write_range(0, 8);  // all of block 0 in order
  check_merges(bench.counters(), {1, 0, 0, 0, 0, 1});
  bench.write_range(8, 3);  // the beginning of block 1
  bench.write({16});        // a stream in block 2 replaces the stream of block 1
  check_merges(bench.counters(), {1, 1, 0, 5, 0, 2});
  bench.write({24 + 1, 24 + 2, 24 + 3, 24 + 4, 32 + 1, 32 + 2, 32 + 3, 32 + 4});  // a log block of blocks 3 and 4
  bench.write({40 + 1, 48 + 1, 56 + 1, 64 + 1, 72 + 1, 80 + 1, 88 + 1, 24 + 1});  // one of eight blocks
  check_merges(bench.counters(), {1, 1, 0, 5, 0, 2});
  bench.write({24 + 5});  // the full merge includes the page of block 3 in the other log block
  check_merges(bench.counters(), {1, 1, 2, 21, 0, 5});
  bench.write({96 + 1, 96 + 2, 96 + 3, 96 + 4, 96 + 5, 96 + 6, 96 + 7, 104 + 1});
  check_merges(bench.counters(), {1, 1, 9, 21 + 7 * 8, 0, 5 + 8});
  bench.write_range(17, 2);  // the stream of block 2 goes on
  bench.write({16 + 1});     // out of order, so its log has no longer the beginning of the block
  bench.write({112});        // another stream
  check_merges(bench.counters(), {1, 1, 10, 77 + 8, 0, 13 + 2});
}

TEST_CASE("a full merge of a stream's data block ends the stream") {
  Bench<LogBlockFtl> bench(tiny_drive(InitialState::kSequential, 3, 100));
  bench.write({0});  // a stream
  for (int i = 0; i < 4; ++i) bench.write({2, 3});
  bench.write({9, 10, 11, 12, 9, 10, 11, 12});
  check_merges(bench.counters(), {0, 0, 0, 0, 0, 0});
  bench.write({16 + 1});  // merges block 0: data block, shared log and the stream's log are erased
  check_merges(bench.counters(), {0, 0, 1, 8, 0, 3});
  bench.write({24});  // so a new stream costs no merge
  check_merges(bench.counters(), {0, 0, 1, 8, 0, 3});
}

TEST_CASE("a switch merge erases the old data block after the new one is complete") {
  Parameters parameters = tiny_drive(InitialState::kSequential, 2, 1);
  parameters.flash.dies_per_channel = 2;
  Bench<LogBlockFtl> bench(parameters);
  const FlashParameters& flash = parameters.flash;
  REQUIRE(bench.ftl().shape().die_of(bench.ftl().physical_page_of(8)) == 1);
  bench.write_range(8, 8);  // the log block is the first free one, on die 0
  const Nanoseconds written = transfer_ns(4096, flash.channel_rate) + 8 * flash.program_time;
  CHECK(bench.counters().switch_merges == 1);
  CHECK(bench.done == written);
  CHECK(bench.counters().gc_ns == written + flash.erase_time);
}

TEST_CASE("writes in order to unwritten blocks need no log, and gaps are padded") {
  for (const std::int64_t sharers : {1, 100}) {
    Bench<LogBlockFtl> bench(tiny_drive(InitialState::kFresh, 2, sharers));
    bench.write_range(0, 64);
    check_merges(bench.counters(), {0, 0, 0, 0, 0, 0});
    bench.write({64 + 2});
    bench.write({64 + 0});  // the block's first page, and the next
    bench.write({64 + 1});
    check_merges(bench.counters(), {0, 0, 0, 0, 0, 0});
    bench.write({72 + 2, 72 + 5});
    for (const std::uint64_t block : {1, 2, 3, 4, 5, 6, 7}) bench.write({8 * block + 1});
    const Counters& counters = bench.counters();
    // in block 9 two pages and four holes before the last of them; in block 8, whose third page is in the log, none
    CHECK(counters.units_padding == 4);
    CHECK(bench.ftl().physical_page_of(72 + 3) == kNoUnit);
    CHECK(bench.ftl().physical_page_of(72 + 5) != kNoUnit);
    CHECK(bench.ftl().physical_page_of(72 + 6) == kNoUnit);
  }
}

TEST_CASE("a write waits for the merge that makes space for it") {
  const Parameters parameters = tiny_drive(InitialState::kSequential, 1, 1);
  const FlashParameters& flash = parameters.flash;
  const Nanoseconds transfer = transfer_ns(4096, flash.channel_rate);
  Bench<LogBlockFtl> bench(parameters);
  CHECK(bench.write({3}) == transfer + flash.program_time);
  const Nanoseconds copied = flash.read_time + 2 * transfer + flash.program_time;
  CHECK(bench.write({8 + 3}) == 8 * copied + 2 * flash.erase_time + transfer + flash.program_time);
  CHECK(bench.counters().gc_ns == 8 * copied + 2 * flash.erase_time);
}

TEST_CASE("the random initial state needs a merge at once, unless background merges have made space") {
  for (const std::int64_t sharers : {1, 100}) {
    Parameters parameters = tiny_drive(InitialState::kRandom, 3, sharers);
    Bench<LogBlockFtl> bench(parameters);
    bench.write({8 * 3 + 1});
    CHECK(bench.counters().full_merges >= 1);
    parameters.log_mapping.background_merge_idle = kMillisecond;
    Bench<LogBlockFtl> rested(parameters);
    rested.idle(kSecond);
    rested.run();
    CHECK(rested.counters().gc_runs_background == 1);
    const std::uint64_t merges = rested.counters().full_merges;
    CHECK(merges >= 2);
    const Nanoseconds transfer = transfer_ns(4096, parameters.flash.channel_rate);
    CHECK(rested.write({8 * 3 + 1}) == transfer + parameters.flash.program_time);
    CHECK(rested.counters().full_merges == merges);
  }
}

TEST_CASE("with a spare log a write does not wait for the merge, but the next operation does") {
  Parameters parameters = tiny_drive(InitialState::kSequential, 2, 1);
  parameters.flash.channels = 2;
  const Nanoseconds alone = transfer_ns(4096, parameters.flash.channel_rate) + parameters.flash.program_time;
  Bench<LogBlockFtl> late(parameters);
  late.write({1});
  late.write({8 + 1});
  CHECK(late.counters().full_merges == 0);
  CHECK(late.write({16 + 1}) > 8 * parameters.flash.program_time);
  CHECK(late.counters().gc_runs_foreground == 1);

  parameters.log_mapping.spare_logs = 1;
  Bench<LogBlockFtl> ahead(parameters);
  ahead.write({1});
  CHECK(ahead.counters().full_merges == 0);
  CHECK(ahead.write({8 + 1}) == alone);  // the other log; the first one is merged
  CHECK(ahead.counters().full_merges == 1);
  CHECK(ahead.counters().gc_runs_foreground == 0);
  const std::uint32_t merged = ahead.ftl().shape().die_of(ahead.ftl().physical_page_of(2));
  std::uint64_t unit = 24;
  while (ahead.ftl().shape().die_of(ahead.ftl().physical_page_of(static_cast<std::uint32_t>(unit))) != merged)
    unit += 8;
  CHECK(ahead.read(unit) > parameters.flash.program_time);  // on the die that merges
}

TEST_CASE("collection of whole blocks moves the same amount, but in longer steps for one write") {
  Parameters parameters = page_drive(InitialState::kRandom);
  parameters.capacity.size = 256 << 20;
  parameters.flash.pages_per_block = 64;
  Counters counters[2];
  Nanoseconds longest[2] = {0, 0};
  for (const bool whole : {false, true}) {
    parameters.page_mapping.gc_whole_blocks = whole;
    Bench<PageFtl> bench(parameters);
    std::mt19937_64 random(5);
    for (int i = 0; i < 3000; ++i) {
      const std::uint64_t unit[] = {random() % bench.units()};
      bench.ftl().write(bench.now, unit, 1);
      longest[whole] = std::max(longest[whole], bench.read(random() % bench.units()));
    }
    counters[whole] = bench.counters();
  }
  CHECK(counters[1].units_moved == doctest::Approx(counters[0].units_moved).epsilon(0.05));
  CHECK(counters[1].gc_runs_foreground == doctest::Approx(counters[0].gc_runs_foreground).epsilon(0.05));
  CHECK(longest[1] > 4 * longest[0]);
}

TEST_CASE("a completely discarded data block is erased when it is written again") {
  Bench<LogBlockFtl> bench(tiny_drive(InitialState::kSequential, 2, 1));
  bench.ftl().discard(bench.now, 8, 8);
  CHECK(bench.counters().block_erases == 0);
  bench.write({8});
  check_merges(bench.counters(), {0, 0, 0, 0, 0, 1});
  bench.write_range(9, 7);
  check_merges(bench.counters(), {0, 0, 0, 0, 0, 1});
}

// ---- parts

TEST_CASE("the two directions of the initial layout are inverse, and its counts are correct") {
  for (const InitialState state : kStates) {
    // `eighths`: filled part of the last stripe, not counting five more units
    for (const auto& [dies, rows, row_units, eighths] :
         {std::tuple{1U, 8U, 1U, 0U}, {4U, 16U, 2U, 0U}, {4U, 16U, 2U, 3U}, {6U, 12U, 3U, 7U}, {16U, 64U, 1U, 4U}}) {
      BlockShape shape;
      shape.dies = dies;
      shape.rows = rows;
      shape.row_units = row_units;
      shape.blocks = 20 * dies;
      const std::uint32_t stripe_units = dies * shape.block_units();
      const std::uint32_t units = 15 * stripe_units + stripe_units * eighths / 8 + 5;
      const InitialLayout layout(state, shape, units, 2 * dies + 1);
      std::uint64_t wrong = 0;
      std::set<std::uint32_t> used_pages;
      for (std::uint32_t unit = 0; unit < units; ++unit) {
        const std::uint32_t physical_page = layout.physical_page_of(unit);
        if (state == InitialState::kFresh) {
          wrong += physical_page != kNoUnit;
          continue;
        }
        used_pages.insert(physical_page);
        wrong += physical_page >= layout.used_blocks() * shape.block_units() || layout.unit_at(physical_page) != unit;
      }
      CHECK(wrong == 0);
      CHECK(used_pages.size() == (state == InitialState::kFresh ? 0 : units));
      std::uint64_t valid = 0;
      for (std::uint32_t block = 0; block < shape.blocks; ++block) {
        std::uint32_t in_block = 0;
        for (std::uint32_t i = 0; i < shape.block_units(); ++i) {
          const std::uint32_t physical_page = block * shape.block_units() + i;
          in_block += layout.unit_at(physical_page) != kNoUnit;
          wrong += (layout.unit_at(physical_page) != kNoUnit) != used_pages.contains(physical_page);
        }
        wrong += in_block != layout.valid_units(block);
        valid += in_block;
      }
      CHECK(wrong == 0);
      CHECK(valid == used_pages.size());
    }
  }
}

// A simple and slow mapping cache.
class PlainCache {
 public:
  PlainCache(std::size_t rows, std::uint32_t units, std::uint32_t page_entries, bool batch)
      : rows_(rows), units_(units), page_entries_(page_entries), batch_(batch) {}

  MappingCache::Lookup look_up(std::uint32_t unit, bool change) {
    MappingCache::Lookup result;
    auto found = find(unit);
    result.hit = found != order_.end();
    if (result.hit) {
      order_.splice(order_.begin(), order_, found);
    } else {
      if (order_.size() == rows_) result.pages_written += evict();
      order_.push_front({unit, false});
      if (batch_) result.pages_written += bring_neighbours(unit);
    }
    order_.front().dirty |= change;
    return result;
  }

 private:
  struct Entry {
    std::uint32_t unit;
    bool dirty;
  };

  std::list<Entry>::iterator find(std::uint32_t unit) {
    return std::find_if(order_.begin(), order_.end(), [&](const Entry& entry) { return entry.unit == unit; });
  }

  std::uint32_t evict() {
    const Entry victim = order_.back();
    order_.pop_back();
    if (!victim.dirty) return 0;
    for (Entry& entry : order_) {
      if (entry.unit / page_entries_ == victim.unit / page_entries_) entry.dirty = false;
    }
    return 1;
  }

  std::uint32_t bring_neighbours(std::uint32_t unit) {
    const std::uint32_t begin = unit / page_entries_ * page_entries_;
    const std::uint32_t size = std::min(page_entries_, units_ - begin);
    std::vector<std::uint32_t> missing;
    for (std::uint32_t i = 1; i < size && missing.size() + 1 < rows_; ++i) {
      const std::uint32_t neighbour = begin + (unit - begin + i) % size;
      if (find(neighbour) == order_.end()) missing.push_back(neighbour);
    }
    std::uint32_t written = 0;
    while (order_.size() + missing.size() > rows_) written += evict();
    for (const std::uint32_t neighbour : missing) order_.push_back({neighbour, false});
    return written;
  }

  std::size_t rows_;
  std::uint32_t units_, page_entries_;
  bool batch_;
  std::list<Entry> order_;  // hottest entry first
};

TEST_CASE("the mapping cache behaves like a plain list") {
  constexpr std::uint32_t kUnits = 1000;
  for (const std::uint32_t rows : {1U, 7U, 64U, 300U}) {
    for (const bool batch : {false, true}) {
      MappingCache cache(rows, kUnits, 32, batch);
      PlainCache plain(rows, kUnits, 32, batch);
      std::mt19937_64 random(rows);
      std::uint64_t different = 0, hits = 0;
      for (int step = 0; step < 20'000; ++step) {
        const auto unit = static_cast<std::uint32_t>(random() % (random() % 2 == 0 ? kUnits : 100));
        const bool change = random() % 3 == 0;
        const MappingCache::Lookup expected = plain.look_up(unit, change);
        const MappingCache::Lookup found = cache.look_up(unit, change);
        different += found.hit != expected.hit || found.pages_written != expected.pages_written;
        hits += found.hit;
      }
      CHECK(different == 0);
      CHECK(hits > 0);
      CHECK(hits < 20'000);
    }
  }
}

TEST_CASE("lookups in a partial map are hits or misses, lookups in a complete map are hits") {
  MappingCache all(0, 1000, 10, true);
  for (std::uint32_t unit = 0; unit < 1000; ++unit) REQUIRE(all.look_up(unit, true).hit);
  Parameters parameters = page_drive(InitialState::kSequential);
  parameters.page_mapping.map_cache_coverage = 0.1;
  parameters.page_mapping.map_page_entries = 64;
  Bench<PageFtl> bench(parameters);
  std::mt19937_64 random(17);
  for (int step = 0; step < 5000; ++step) {
    bench.read(random() % (bench.units() - 3), 3);
    bench.write({random() % bench.units()});
  }
  const Counters& counters = bench.counters();
  CHECK(counters.map_read_hits + counters.map_read_misses == 15'000);
  CHECK(counters.map_write_hits + counters.map_write_misses == 5000);
  CHECK(counters.map_request_hits + counters.map_request_misses == 10'000);
  CHECK(counters.translation_reads >= counters.map_request_misses);
  CHECK(counters.translation_writes > 0);
}

// ---- parameters

// Returns the parameter that the constructor of an FTL refuses; "" if it refuses none.
std::string refused(const Parameters& parameters) {
  try {
    if (parameters.ftl.mapping == Mapping::kPage) {
      const Bench<PageFtl> bench(parameters);
    } else {
      const Bench<LogBlockFtl> bench(parameters);
    }
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    return text.substr(0, text.find(':'));
  }
  return "";
}

TEST_CASE("parameters that contradict each other are refused with the name of one of them") {
  using Change = void (*)(Parameters&);
  const std::vector<std::tuple<Mapping, std::string, Change>> cases = {
      {Mapping::kPage, "", [](Parameters&) {}},
      {Mapping::kPage, "page_mapping.background_gc_reserve", [](Parameters& p) { p.page_mapping.gc_reserve = 6; }},
      {Mapping::kPage, "flash.page", [](Parameters& p) { p.page_mapping.unit = 3000; }},
      {Mapping::kPage, "ftl.over_provisioning", [](Parameters& p) { p.ftl.over_provisioning = 0.01; }},
      {Mapping::kPage, "capacity.size", [](Parameters& p) { p.capacity.size += 512; }},
      {Mapping::kPage, "capacity.size", [](Parameters& p) { p.capacity.size = 1LL << 50; }},
      {Mapping::kLogBlock, "", [](Parameters&) {}},
      {Mapping::kLogBlock, "flash.suspend_time", [](Parameters& p) { p.flash.suspend_time = kMicrosecond; }},
      {Mapping::kLogBlock, "log_mapping.group", [](Parameters& p) { p.log_mapping.group = 3; }},
      {Mapping::kLogBlock, "ftl.over_provisioning", [](Parameters& p) { p.ftl.over_provisioning = 0.01; }},
      {Mapping::kLogBlock, "log_mapping.spare_logs", [](Parameters& p) { p.log_mapping.spare_logs = 4; }},
      {Mapping::kLogBlock, "log_mapping.spare_logs",
       [](Parameters& p) { p.log_mapping.blocks_per_log = 100, p.log_mapping.spare_logs = 3; }},
      {Mapping::kLogBlock, "log_mapping.log_blocks",
       [](Parameters& p) { p.log_mapping.blocks_per_log = 2, p.log_mapping.log_blocks = 1; }},
      {Mapping::kLogBlock, "capacity.size", [](Parameters& p) { p.capacity.size += 512; }},
      {Mapping::kLogBlock, "capacity.size", [](Parameters& p) { p.capacity.size = 1LL << 50; }},
  };
  for (const auto& [mapping, name, change] : cases) {
    Parameters parameters =
        mapping == Mapping::kPage ? page_drive(InitialState::kRandom) : log_drive(InitialState::kRandom, 1);
    change(parameters);
    CHECK(refused(parameters) == name);
  }
}

}  // namespace
}  // namespace twin
