// The flash translation layers against a reference model: what is where, what it costs, what is conserved.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <random>
#include <set>
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

// 8 dies on 4 channels, 16 pages of 4 KiB in a block, 16 MiB.
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

// What a test asks of either layer beyond the interface.
struct PageProbe {
  static std::uint32_t blocks(const PageFtl& ftl) { return ftl.shape().blocks; }
  static std::uint32_t block_units(const PageFtl& ftl) { return ftl.shape().block_units(); }
  static std::uint32_t valid(const PageFtl& ftl, std::uint32_t block) { return ftl.blocks().valid(block); }
  static std::uint32_t erases(const PageFtl& ftl, std::uint32_t block) { return ftl.blocks().erase_count(block); }
  static bool owns(const PageFtl&, std::uint32_t, std::uint32_t) { return true; }
};

struct LogProbe {
  static std::uint32_t blocks(const LogBlockFtl& ftl) { return ftl.shape().blocks; }
  static std::uint32_t block_units(const LogBlockFtl& ftl) { return ftl.shape().block_units; }
  static std::uint32_t valid(const LogBlockFtl& ftl, std::uint32_t block) { return ftl.valid(block); }
  static std::uint32_t erases(const LogBlockFtl& ftl, std::uint32_t block) { return ftl.erase_count(block); }
  static bool owns(const LogBlockFtl& ftl, std::uint32_t physical_page, std::uint32_t unit) {
    return ftl.unit_at(physical_page) == unit;
  }
};

// An FTL on its own, with the controller's side of the interface.
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
  void write_done(Nanoseconds when, std::uint64_t, std::uint32_t count) override {
    done = when;
    units_written += count;
  }

  void run() {
    while (events_.next() != kNever) {
      now = events_.next();
      events_.run_next();
    }
  }

  // How long a read takes that is alone; 0 when it costs no flash.
  Nanoseconds read(std::uint64_t unit, std::uint32_t count = 1) {
    if (!ftl_.read(now, unit, count, count * unit_bytes(), 1)) return 0;
    const Nanoseconds begin = now;
    run();
    return done - begin;
  }

  // How long it takes to write the units when nothing else is outstanding.
  Nanoseconds write(const std::vector<std::uint64_t>& list) {
    const Nanoseconds begin = now;
    for (std::size_t first = 0; first < list.size(); first += ftl_.program_units()) {
      const auto count = std::min<std::size_t>(ftl_.program_units(), list.size() - first);
      ftl_.write(now, list.data() + first, static_cast<std::uint32_t>(count), 2);
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
    const Nanoseconds since = now;
    now += length;
    ftl_.idle(now, since);
  }

  [[nodiscard]] std::uint64_t unit_bytes() const { return ftl_.unit_bytes(); }
  [[nodiscard]] std::uint32_t units() const {
    return static_cast<std::uint32_t>(parameters_.capacity.size / ftl_.unit_bytes());
  }
  [[nodiscard]] F& ftl() { return ftl_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

  Nanoseconds now = 0, done = 0;
  std::uint64_t arrived_bytes = 0, reads_done = 0, units_written = 0;
  int reads_in_progress = 0;  // that the client starts from within read_progress()

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

// What must hold of a drive after each operation. A physical page that has been programmed stays taken until its block
// is erased, so a unit found in a new page has been programmed there; the host's writes and the moves account for all
// of these.
template <class F, class Probe>
class Reference {
 public:
  explicit Reference(Bench<F>& bench)
      : bench_(bench),
        block_units_(Probe::block_units(bench.ftl())),
        physical_page_(bench.units()),
        mapped_(bench.units()),
        written_(bench.units()),
        programmed_(static_cast<std::size_t>(Probe::blocks(bench.ftl())) * block_units_, -1),
        erases_(Probe::blocks(bench.ftl())) {
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

  // `long_after`: so much may have been moved since the last check that a unit is back on its page, programmed anew.
  void check(bool long_after = false) {
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
      not_owned += !Probe::owns(ftl, physical_page, unit);
      const auto erases = static_cast<std::int64_t>(Probe::erases(ftl, block));
      const bool erased = erases != erases_[block];
      if (physical_page == before && !written_[unit] && !(erased && long_after)) {
        erased_valid += erased;
        continue;
      }
      ++programs;
      programmed_twice += programmed_[physical_page] >= erases;
      programmed_[physical_page] = erases;
    }
    for (std::uint32_t block = 0; block < valid.size(); ++block) {
      wrong_valid += valid[block] != Probe::valid(ftl, block);
      erases_[block] = Probe::erases(ftl, block);
    }
    const Counters& now = bench_.counters();
    unaccounted += programs > now.units_host - last_.units_host + now.units_moved - last_.units_moved;
    unaccounted += now.units_programmed != now.units_host + now.units_moved + now.units_padding;
    last_ = now;
  }

  void require_none_wrong() const {
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
  std::vector<std::uint8_t> mapped_;      // by unit: whether it is; bytes, since sanitizers are slow with bits
  std::vector<std::uint8_t> written_;     // by unit: whether it was, since the last check
  std::vector<std::int64_t> programmed_;  // by physical page: the erase count of its block at the time, -1: never
  std::vector<std::int64_t> erases_;
  Counters last_;
  std::uint64_t wrong_mapping = 0, shared_pages = 0, not_owned = 0, erased_valid = 0, programmed_twice = 0,
                wrong_valid = 0, unaccounted = 0;
};

// Random writes, sequential writes, reads, discards and pauses.
template <class F, class Probe>
void run_against_reference(const Parameters& parameters, std::uint64_t seed, int steps) {
  Bench<F> bench(parameters);
  Reference<F, Probe> reference(bench);
  reference.check();
  reference.require_none_wrong();
  std::mt19937_64 random(seed);
  const std::uint64_t units = bench.units();
  std::uint64_t cursor = 0;
  std::uint64_t too_fast = 0, wrong_reads = 0, taken = 0;
  const Nanoseconds least_read =
      parameters.flash.read_time + transfer_ns(bench.unit_bytes(), parameters.flash.channel_rate);
  // else even a unit that is not mapped may cost a page of the map
  const bool map_at_hand = parameters.page_mapping.map_cache_coverage == 1;
  for (int step = 0; step < steps; ++step) {
    const std::uint64_t kind = random() % 100;
    if (kind < 70) {
      std::vector<std::uint64_t> list;
      const std::uint64_t count = 1 + random() % bench.ftl().program_units();
      if (kind < 35) {
        for (std::uint64_t i = 0; i < count; ++i) list.push_back(random() % units);
        if (random() % 8 == 0) list.back() = list.front();  // the same unit twice at once
      } else {
        if (random() % 100 == 0) cursor = random() % units / 64 * 64;
        for (std::uint64_t i = 0; i < count; ++i) list.push_back((cursor + i) % units);
        cursor = (cursor + count) % units;
      }
      too_fast += bench.write(list) < parameters.flash.program_time;
      taken += list.size();
      reference.write(list);
    } else if (kind < 90) {
      const std::uint64_t unit = random() % (units - 8);
      const auto count = static_cast<std::uint32_t>(1 + random() % 8);
      bool mapped = false;
      for (std::uint64_t each = unit; each < unit + count; ++each) mapped |= reference.mapped(each);
      const std::uint64_t sensed = bench.counters().page_reads;
      const Nanoseconds latency = bench.read(unit, count);
      wrong_reads += latency == 0 ? mapped : map_at_hand && !mapped;
      wrong_reads += map_at_hand && !mapped && bench.counters().page_reads != sensed;
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
  CHECK(bench.units_written == taken);
  CHECK(bench.counters().units_host == taken);
  reference.require_none_wrong();
}

constexpr InitialState kStates[] = {InitialState::kFresh, InitialState::kSequential, InitialState::kRandom};

TEST_CASE("page mapping finds every unit where the newest write put it") {
  for (const InitialState state : kStates) {
    CAPTURE(static_cast<int>(state));
    run_against_reference<PageFtl, PageProbe>(page_drive(state), 1, 4000);
    run_against_reference<PageFtl, PageProbe>(page_drive(state, 2), 2, 3000);
    Parameters parameters = page_drive(state, 2, 2048);
    parameters.page_mapping.background_gc_idle = kMillisecond;
    run_against_reference<PageFtl, PageProbe>(parameters, 3, 3000);
    parameters = page_drive(state);
    parameters.page_mapping.map_cache_coverage = 0.05;
    run_against_reference<PageFtl, PageProbe>(parameters, 4, 3000);
    parameters = page_drive(state, 2);
    parameters.page_mapping.gc_whole_blocks = true;
    run_against_reference<PageFtl, PageProbe>(parameters, 8, 3000);
  }
}

TEST_CASE("log blocks lead to every unit where the newest write put it") {
  for (const InitialState state : kStates) {
    for (const std::int64_t sharers : {1, 3, 10'000}) {
      CAPTURE(static_cast<int>(state));
      CAPTURE(sharers);
      run_against_reference<LogBlockFtl, LogProbe>(log_drive(state, sharers), 5, 3000);
      run_against_reference<LogBlockFtl, LogProbe>(log_drive(state, sharers, 1, 2), 6, 3000);
      Parameters parameters = log_drive(state, sharers, 8);
      parameters.log_mapping.background_merge_idle = kMillisecond;
      parameters.capacity.size = (16 << 20) - 5 * 4096;  // the last data block is not complete
      run_against_reference<LogBlockFtl, LogProbe>(parameters, 7, 3000);
      parameters = log_drive(state, sharers, 1, 2);
      parameters.log_mapping.spare_logs = 2;
      run_against_reference<LogBlockFtl, LogProbe>(parameters, 9, 3000);
    }
  }
}

template <class F>
Counters run_mixture(const Parameters& parameters, std::vector<Nanoseconds>& times) {
  Bench<F> bench(parameters);
  std::mt19937_64 random(11);
  for (int step = 0; step < 5000; ++step) {
    const std::uint64_t unit = random() % bench.units();
    times.push_back(step % 3 == 0 ? bench.read(unit) : bench.write({unit}));
  }
  return bench.counters();
}

template <class F>
void check_determinism(const Parameters& parameters) {
  std::vector<Nanoseconds> first_times, second_times;
  const Counters first = run_mixture<F>(parameters, first_times);
  const Counters second = run_mixture<F>(parameters, second_times);
  CHECK(first_times == second_times);
  std::vector<std::uint64_t> first_values, second_values;
  visit_counters(first, [&](const char*, std::uint64_t value) { first_values.push_back(value); });
  visit_counters(second, [&](const char*, std::uint64_t value) { second_values.push_back(value); });
  CHECK(first_values == second_values);
}

TEST_CASE("the same calls give the same times and counts") {
  check_determinism<PageFtl>(page_drive(InitialState::kRandom));
  check_determinism<LogBlockFtl>(log_drive(InitialState::kRandom, 1));
  check_determinism<LogBlockFtl>(log_drive(InitialState::kRandom, 100));
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
  // a client that reads on while it is being told
  bench.reads_in_progress = 5000;
  bench.read(6);
  CHECK(bench.reads_done == 5002);
}

TEST_CASE("a read alone takes sensing and transfer, a write transfer and programming, a discarded unit nothing") {
  check_latencies<PageFtl>(page_drive(InitialState::kSequential));
  check_latencies<LogBlockFtl>(log_drive(InitialState::kSequential, 1));
  check_latencies<LogBlockFtl>(log_drive(InitialState::kSequential, 100));
}

double write_amplification(const Counters& before, const Counters& after) {
  return static_cast<double>(after.units_programmed - before.units_programmed) /
         static_cast<double>(after.units_host - before.units_host);
}

TEST_CASE("page mapping: the random initial state is the steady state of random overwrites") {
  Parameters parameters = page_drive(InitialState::kRandom);
  parameters.capacity.size = 256 << 20;
  parameters.flash.pages_per_block = 64;
  Bench<PageFtl> bench(parameters);
  std::mt19937_64 random(5);
  std::vector<double> amplification;
  for (int part = 0; part < 30; ++part) {
    const Counters before = bench.counters();
    for (std::uint32_t i = 0; i < bench.units() / 10; ++i) bench.write({random() % bench.units()});
    amplification.push_back(write_amplification(before, bench.counters()));
  }
  const double first = amplification.front();
  double steady = 0;
  for (std::size_t part = 20; part < 30; ++part) steady += amplification[part] / 10;
  MESSAGE("write amplification: first " << first << ", steady " << steady);
  CHECK(first == doctest::Approx(steady).epsilon(0.10));
}

// 1 GiB of 512 KiB blocks on 16 dies, overwritten twice at random from the steady state on; the amplification of each
// tenth of an overwrite after the first one.
std::vector<double> amplification_of(GcPolicy policy, double over_provisioning) {
  Parameters parameters = page_drive(InitialState::kRandom);
  parameters.capacity.size = 1 << 30;
  parameters.flash.channels = 16;
  parameters.flash.dies_per_channel = 1;
  parameters.flash.pages_per_block = 128;
  parameters.ftl.over_provisioning = over_provisioning;
  parameters.page_mapping.gc_policy = policy;
  Bench<PageFtl> bench(parameters);
  std::mt19937_64 random(5);
  std::vector<double> amplification;
  for (int part = 0; part < 20; ++part) {
    const Counters before = bench.counters();
    for (std::uint32_t i = 0; i < bench.units() / 10; ++i) bench.write({random() % bench.units()});
    if (part >= 10) amplification.push_back(write_amplification(before, bench.counters()));
  }
  return amplification;
}

TEST_CASE("write amplification keeps even, and more spare space lowers it") {
  for (const GcPolicy policy : {GcPolicy::kGreedy, GcPolicy::kCostBenefit}) {
    double last = 1e9;
    for (const double over_provisioning : {0.12, 0.28, 0.4}) {
      const std::vector<double> parts = amplification_of(policy, over_provisioning);
      const auto [least, most] = std::minmax_element(parts.begin(), parts.end());
      MESSAGE("over-provisioning " << over_provisioning << ": write amplification " << *least << " to " << *most);
      CHECK(*most < 1.1 * *least);
      CHECK(*most < last);
      last = *least;
    }
  }
}

TEST_CASE("static data move when the blocks around them wear, and only then") {
  for (const std::int64_t spread : {0, 8}) {
    Parameters parameters = page_drive(InitialState::kSequential);
    parameters.page_mapping.wear_spread = spread;
    Bench<PageFtl> bench(parameters);
    std::mt19937_64 random(17);
    // nine tenths are never written again
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

TEST_CASE("sequential overwrites move next to nothing") {
  CHECK(sequential_amplification<PageFtl>(page_drive(InitialState::kSequential)) < 1.02);
  CHECK(sequential_amplification<LogBlockFtl>(log_drive(InitialState::kSequential, 1)) == 1);
  CHECK(sequential_amplification<LogBlockFtl>(log_drive(InitialState::kSequential, 100)) == 1);
  CHECK(sequential_amplification<LogBlockFtl>(log_drive(InitialState::kFresh, 100)) == 1);
}

TEST_CASE("a drive of 16 channels with one die each and 2 KiB pages runs") {
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
  // of the 16 for each die, up to two are being filled
  CHECK(bench.ftl().blocks().free_blocks() >= 14 * 16);
}

TEST_CASE("page mapping: an idle call while a step is due keeps background collection going") {
  Parameters parameters = page_drive(InitialState::kRandom);
  parameters.page_mapping.background_gc_reserve = 6;
  Bench<PageFtl> bench(parameters);
  bench.idle(kSecond);
  const std::uint64_t unit = 7;
  bench.ftl().write(bench.now, &unit, 1, 1);  // the host is back before the first step
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

TEST_CASE("a log block of its own for each data block is merged as its pages lie") {
  Bench<LogBlockFtl> bench(tiny_drive(InitialState::kSequential, 2, 1));
  bench.write_range(0, 8);  // all of block 0 in order
  check_merges(bench.counters(), {1, 0, 0, 0, 0, 1});
  bench.write_range(8, 3);  // the beginning of block 1
  bench.write({16 + 3});    // block 2
  check_merges(bench.counters(), {1, 0, 0, 0, 0, 1});
  bench.write({24 + 5});  // block 3 needs the log of block 1
  check_merges(bench.counters(), {1, 1, 0, 5, 0, 2});
  bench.write({32 + 1});  // block 4 needs that of block 2
  check_merges(bench.counters(), {1, 1, 1, 13, 0, 4});
  bench.write({24 + 1});  // block 3's log is the younger one now
  bench.write({40 + 1});  // so that of block 4 goes
  check_merges(bench.counters(), {1, 1, 2, 21, 0, 6});
  for (int i = 0; i < 6; ++i) bench.write({24 + 2});
  check_merges(bench.counters(), {1, 1, 2, 21, 0, 6});
  bench.write({24 + 2});  // block 3's log is full
  check_merges(bench.counters(), {1, 1, 3, 29, 0, 8});
}

TEST_CASE("shared log blocks are merged block by block, a stream on its own") {
  Bench<LogBlockFtl> bench(tiny_drive(InitialState::kSequential, 3, 100));
  bench.write_range(0, 8);  // all of block 0 in order
  check_merges(bench.counters(), {1, 0, 0, 0, 0, 1});
  bench.write_range(8, 3);  // the beginning of block 1
  bench.write({16});        // a stream in block 2 takes its place
  check_merges(bench.counters(), {1, 1, 0, 5, 0, 2});
  bench.write({24 + 1, 24 + 2, 24 + 3, 24 + 4, 32 + 1, 32 + 2, 32 + 3, 32 + 4});  // a log block of blocks 3 and 4
  bench.write({40 + 1, 48 + 1, 56 + 1, 64 + 1, 72 + 1, 80 + 1, 88 + 1, 24 + 1});  // one of eight blocks
  check_merges(bench.counters(), {1, 1, 0, 5, 0, 2});
  bench.write({24 + 5});  // takes the page of block 3 in the other one along
  check_merges(bench.counters(), {1, 1, 2, 21, 0, 5});
  bench.write({96 + 1, 96 + 2, 96 + 3, 96 + 4, 96 + 5, 96 + 6, 96 + 7, 104 + 1});
  check_merges(bench.counters(), {1, 1, 9, 21 + 7 * 8, 0, 5 + 8});
  bench.write_range(17, 2);  // the stream of block 2 goes on
  bench.write({16 + 1});     // out of order, so its log has no longer the beginning of the block
  bench.write({112});        // another stream
  check_merges(bench.counters(), {1, 1, 10, 77 + 8, 0, 13 + 2});
}

TEST_CASE("a full merge of a stream's block leaves nothing of the stream") {
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

TEST_CASE("a switch merge erases the old data block when the new one is complete") {
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

TEST_CASE("writes in order into blocks never written need no log, and holes are padding") {
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

TEST_CASE("a write waits for the merge that makes room for it") {
  const Parameters parameters = tiny_drive(InitialState::kSequential, 1, 1);
  const FlashParameters& flash = parameters.flash;
  const Nanoseconds transfer = transfer_ns(4096, flash.channel_rate);
  Bench<LogBlockFtl> bench(parameters);
  CHECK(bench.write({3}) == transfer + flash.program_time);
  const Nanoseconds copied = flash.read_time + 2 * transfer + flash.program_time;
  CHECK(bench.write({8 + 3}) == 8 * copied + 2 * flash.erase_time + transfer + flash.program_time);
  CHECK(bench.counters().gc_ns == 8 * copied + 2 * flash.erase_time);
}

TEST_CASE("a random initial state has to merge at once, and the background makes room") {
  for (const std::int64_t sharers : {1, 100}) {
    Parameters parameters = tiny_drive(InitialState::kRandom, 3, sharers);
    Bench<LogBlockFtl> bench(parameters);
    bench.write({8 * 3 + 1});
    CHECK(bench.counters().full_merges >= 1);
    bench.idle(kSecond);
    bench.run();
    CHECK(bench.counters().gc_runs_background == 0);
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

TEST_CASE("with a spare log a write does not wait for its merge, and what comes next does") {
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

TEST_CASE("spare logs must leave one to write to") {
  Parameters parameters = tiny_drive(InitialState::kSequential, 2, 1);
  parameters.log_mapping.spare_logs = 2;
  CHECK_THROWS_WITH_AS(Bench<LogBlockFtl>{parameters}, doctest::Contains("log_mapping.spare_logs"),
                       std::invalid_argument);
  parameters = tiny_drive(InitialState::kSequential, 2, 100);
  parameters.log_mapping.spare_logs = 1;
  CHECK_THROWS_AS(Bench<LogBlockFtl>{parameters}, std::invalid_argument);
}

TEST_CASE("collection by whole blocks keeps a die busy, moves as much, and pays for the writes that follow") {
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
      const std::uint64_t unit = random() % bench.units();
      bench.ftl().write(bench.now, &unit, 1, 1);
      longest[whole] = std::max(longest[whole], bench.read(random() % bench.units()));
    }
    counters[whole] = bench.counters();
  }
  CHECK(counters[1].units_moved == doctest::Approx(counters[0].units_moved).epsilon(0.05));
  CHECK(counters[1].gc_runs_foreground == doctest::Approx(counters[0].gc_runs_foreground).epsilon(0.05));
  CHECK(longest[1] > 4 * longest[0]);
}

TEST_CASE("a data block of which nothing is left is erased when it is written again") {
  Bench<LogBlockFtl> bench(tiny_drive(InitialState::kSequential, 2, 1));
  bench.ftl().discard(bench.now, 8, 8);
  CHECK(bench.counters().block_erases == 0);
  bench.write({8});
  check_merges(bench.counters(), {0, 0, 0, 0, 0, 1});
  bench.write_range(9, 7);
  check_merges(bench.counters(), {0, 0, 0, 0, 0, 1});
}

// ---- parts

TEST_CASE("the initial layout's two directions are inverse, and its counts are right") {
  for (const InitialState state : kStates) {
    // the last of them says in how many eighths the last stripe is full, but for five units more
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
        wrong += in_block != layout.valid_units(block) || layout.programmed_units(block) < in_block;
        wrong += in_block > shape.block_units();
        valid += in_block;
      }
      CHECK(wrong == 0);
      CHECK(valid == used_pages.size());
    }
  }
}

TEST_CASE("the dies take their turns in each row") {
  BlockShape shape;
  shape.dies = 12;
  for (std::uint64_t row = 0; row < 100; ++row) {
    std::set<std::uint32_t> dies;
    for (std::uint32_t turn = 0; turn < shape.dies; ++turn) {
      const std::uint32_t die = die_in_turn(shape, row, turn);
      dies.insert(die);
      REQUIRE(turn_of_die(shape, row, die) == turn);
    }
    REQUIRE(dies.size() == shape.dies);
  }
}

// A mapping cache as one would write it without a thought for speed.
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
  std::list<Entry> order_;  // the hottest first
};

TEST_CASE("the mapping cache does what a plain list does") {
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

TEST_CASE("a dirty entry is written once, with all dirty ones of its page") {
  MappingCache cache(4, 1000, 10, false);
  for (const std::uint32_t unit : {0U, 1U, 2U}) cache.look_up(unit, true);
  cache.look_up(100, false);
  CHECK(cache.look_up(200, false).pages_written == 1);
  CHECK(cache.look_up(300, false).pages_written == 0);
  CHECK(cache.look_up(400, false).pages_written == 0);
  CHECK(cache.look_up(500, false).pages_written == 0);
}

TEST_CASE("a map that fits is always at hand; of one that does not, lookups are hits or misses") {
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

std::string refusal(const Parameters& parameters) {
  struct Nobody final : FtlClient {
    void read_progress(Nanoseconds, std::uint64_t, std::uint64_t) override {}
    void read_done(Nanoseconds, std::uint64_t) override {}
    void write_done(Nanoseconds, std::uint64_t, std::uint32_t) override {}
  } nobody;
  EventQueue events;
  Counters counters;
  try {
    if (parameters.ftl.mapping == Mapping::kPage) {
      const PageFtl ftl(parameters.capacity.size, parameters.flash, parameters.ageing, 1, parameters.ftl,
                        parameters.page_mapping, events, nobody, counters);
    } else {
      const LogBlockFtl ftl(parameters.capacity.size, parameters.flash, parameters.ageing, 1, parameters.ftl,
                            parameters.log_mapping, events, nobody, counters);
    }
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    return text.substr(0, text.find(':'));
  }
  return "";
}

TEST_CASE("impossible parameters are refused by name") {
  CHECK(refusal(page_drive(InitialState::kRandom)).empty());
  CHECK(refusal(log_drive(InitialState::kRandom, 1)).empty());
  Parameters parameters = page_drive(InitialState::kRandom);
  parameters.page_mapping.background_gc_reserve = 3;
  parameters.page_mapping.gc_reserve = 4;
  CHECK(refusal(parameters) == "page_mapping.background_gc_reserve");
  parameters = log_drive(InitialState::kRandom, 1);
  parameters.flash.suspend_time = kMicrosecond;
  CHECK(refusal(parameters) == "flash.suspend_time");
  parameters = page_drive(InitialState::kRandom, 1, 3000);
  CHECK(refusal(parameters) == "flash.page");
  parameters = page_drive(InitialState::kRandom);
  parameters.ftl.over_provisioning = 0.01;
  CHECK(refusal(parameters) == "ftl.over_provisioning");
  parameters = log_drive(InitialState::kRandom, 1, 3);
  CHECK(refusal(parameters) == "log_mapping.group");
  parameters = log_drive(InitialState::kRandom, 1);
  parameters.ftl.over_provisioning = 0.01;
  CHECK(refusal(parameters) == "ftl.over_provisioning");
  parameters = log_drive(InitialState::kRandom, 2);
  parameters.log_mapping.log_blocks = 1;
  CHECK(refusal(parameters) == "log_mapping.log_blocks");
  parameters = log_drive(InitialState::kRandom, 1);
  parameters.capacity.size += 512;
  CHECK(refusal(parameters) == "capacity.size");
  parameters.capacity.size = 1LL << 50;
  CHECK(refusal(parameters) == "capacity.size");
}

}  // namespace
}  // namespace twin
