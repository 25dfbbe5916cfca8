// The controller's parts: unit table, read cache, write buffer, read-ahead.
#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

#include "controller/read_ahead.h"
#include "controller/read_cache.h"
#include "controller/unit_table.h"
#include "controller/write_buffer.h"

namespace twin {
namespace {

TEST_CASE("a unit table holds what a map holds, through any order of insertions and removals") {
  constexpr std::size_t kCapacity = 300;
  UnitTable table(kCapacity);
  std::map<std::uint64_t, std::uint32_t> expected;
  std::mt19937_64 random(7);
  for (int step = 0; step < 200'000; ++step) {
    const std::uint64_t unit = random() % 500;
    const auto known = expected.find(unit);
    std::uint32_t* found = table.find(unit);
    REQUIRE((found != nullptr) == (known != expected.end()));
    if (found != nullptr) {
      REQUIRE(*found == known->second);
      if (random() % 2 == 0) {
        table.erase(unit);
        expected.erase(known);
      } else {
        *found = known->second = static_cast<std::uint32_t>(random());
      }
    } else if (expected.size() < kCapacity) {
      const auto value = static_cast<std::uint32_t>(random());
      table.insert(unit, value);
      expected[unit] = value;
    }
    REQUIRE(table.empty() == expected.empty());
  }
}

TEST_CASE("a read cache serves what was read last and never what was dropped") {
  ReadCache cache(64 * 4096, 4096, true);
  std::mt19937_64 random(3);
  std::set<std::uint64_t> dropped;
  for (int step = 0; step < 50'000; ++step) {
    const std::uint64_t unit = random() % 200;
    if (random() % 5 == 0) {
      const std::uint64_t end = unit + 1 + random() % (random() % 10 == 0 ? 300 : 4);
      cache.drop_all(unit, end);
      for (std::uint64_t each = unit; each < end; ++each) dropped.insert(each);
    } else if (random() % 2 == 0) {
      cache.insert(unit);
      dropped.erase(unit);
      REQUIRE(cache.hit(unit));
    } else if (cache.hit(unit)) {
      REQUIRE(!dropped.contains(unit));
    }
  }
}

TEST_CASE("a read cache that is switched off or has no size serves nothing") {
  for (const auto& [size, enabled] : {std::pair<std::uint64_t, bool>{1 << 20, false}, {0, true}}) {
    ReadCache cache(size, 4096, enabled);
    cache.insert(1);
    CHECK_FALSE(cache.hit(1));
    cache.drop_all(0, 10);
  }
}

WriteBufferParameters buffer_of(std::int64_t units, std::int64_t segments = 1) {
  WriteBufferParameters parameters;
  parameters.size = units * 4096;
  parameters.segments = segments;
  return parameters;
}

TEST_CASE("a write buffer never holds more than its size, and every unit taken leaves once") {
  constexpr std::uint64_t kUnits = 64;
  WriteBuffer buffer(buffer_of(kUnits), 4096, 8, 3);
  std::mt19937_64 random(11);
  std::multiset<std::uint64_t> waiting;  // what must still go to flash
  std::map<std::uint32_t, std::vector<std::uint64_t>> outstanding;
  std::uint64_t outstanding_units = 0;
  std::vector<std::uint64_t> batch;
  for (int step = 0; step < 100'000; ++step) {
    const std::uint64_t unit = random() % 150;
    switch (random() % 4) {
      case 0:
      case 1: {
        const bool known = waiting.contains(unit);
        const bool taken = buffer.take(unit);
        if (known) REQUIRE(taken);
        if (taken && !known) waiting.insert(unit);
        if (taken) REQUIRE(buffer.holds(unit));
        break;
      }
      case 2:
        if (!waiting.empty() && buffer.batch_free()) {
          const std::uint32_t number = buffer.begin_batch(batch);
          REQUIRE(batch.size() <= 8);
          for (const std::uint64_t each : batch) {
            REQUIRE(waiting.contains(each));
            waiting.erase(waiting.find(each));
          }
          outstanding[number] = batch;
          outstanding_units += batch.size();
        }
        break;
      default:
        if (!outstanding.empty()) {
          outstanding_units -= outstanding.begin()->second.size();
          buffer.end_batch(outstanding.begin()->first);
          outstanding.erase(outstanding.begin());
        } else {
          buffer.forget_all(unit, unit + 3);
          for (std::uint64_t each = unit; each < unit + 3; ++each) waiting.erase(each);
        }
    }
    REQUIRE(buffer.waiting_units() == waiting.size());
    REQUIRE(waiting.size() + outstanding_units <= kUnits);
  }
  CHECK(buffer.left() <= buffer.taken());
}

TEST_CASE("a write buffer tells as many streams apart as it has segments") {
  for (const std::int64_t segments : {1, 2}) {
    WriteBuffer buffer(buffer_of(64, segments), 4096, 8, 1);
    CHECK_FALSE(buffer.continues_stream(0, 4096));
    CHECK(buffer.continues_stream(4096, 4096));
    CHECK_FALSE(buffer.continues_stream(1 << 20, 4096));
    CHECK(buffer.continues_stream(8192, 4096) == (segments == 2));
  }
}

ReadAheadParameters ahead_of(std::int64_t window, std::int64_t refill, std::int64_t streams = 1) {
  ReadAheadParameters parameters;
  parameters.window = window;
  parameters.refill = refill;
  parameters.streams = streams;
  parameters.trigger_commands = 2;
  return parameters;
}

Request read_at(std::uint64_t offset_bytes, std::uint64_t size_bytes) {
  return {Operation::kRead, 0, offset_bytes, size_bytes};
}

TEST_CASE("read-ahead begins with the command that makes a stream, fills the window, and no more") {
  Counters counters;
  ReadAhead ahead(ahead_of(256 * 1024, 64 * 1024), 4096, 1 << 30, counters);
  ReadAhead::Piece piece;
  int stream = ahead.observe(read_at(0, 4096));
  CHECK_FALSE(ahead.next_piece(stream, piece));
  stream = ahead.observe(read_at(4096, 4096));
  std::uint64_t end = 8192;
  while (ahead.next_piece(stream, piece)) {
    CHECK(piece.begin_bytes == end);
    end = piece.end_bytes;
    CHECK(end % (64 * 1024) == 0);
  }
  CHECK(end == 256 * 1024);
  CHECK(counters.prefetched_bytes == end - 8192);
}

TEST_CASE("a read waits for the piece it needs, and comes back when it has arrived") {
  Counters counters;
  ReadAhead ahead(ahead_of(128 * 1024, 64 * 1024), 4096, 1 << 30, counters);
  ahead.observe(read_at(0, 4096));
  int stream = ahead.observe(read_at(4096, 4096));
  ReadAhead::Piece first;
  REQUIRE(ahead.next_piece(stream, first));
  stream = ahead.observe(read_at(8192, 4096));
  CHECK(ahead.covered_bytes(stream, 8192) == 56 * 1024);
  Command command;
  CHECK_FALSE(ahead.ready_or_wait(stream, 12288, command));
  CHECK(ahead.arrived(first.token) == &command);
  CHECK(ahead.ready_or_wait(stream, 12288, command));
}

TEST_CASE("with one stream, interleaved readers reset each other; with two they do not") {
  for (const std::int64_t streams : {1, 2}) {
    Counters counters;
    ReadAhead ahead(ahead_of(128 * 1024, 64 * 1024, streams), 4096, 1 << 30, counters);
    ReadAhead::Piece piece;
    bool fetched = false;
    for (std::uint64_t i = 0; i < 8; ++i) {
      for (const std::uint64_t base : {0ULL, 1ULL << 24}) {
        const int stream = ahead.observe(read_at(base + i * 4096, 4096));
        if (stream != ReadAhead::kNoStream) fetched |= ahead.next_piece(stream, piece);
      }
    }
    CHECK(fetched == (streams == 2));
  }
}

TEST_CASE("a write into what was fetched ahead makes the stream start afresh") {
  Counters counters;
  ReadAhead ahead(ahead_of(128 * 1024, 64 * 1024), 4096, 1 << 30, counters);
  ahead.observe(read_at(0, 4096));
  const int stream = ahead.observe(read_at(4096, 4096));
  ReadAhead::Piece piece;
  REQUIRE(ahead.next_piece(stream, piece));
  ahead.invalidate(16384, 4096);
  CHECK(ahead.covered_bytes(stream, 8192) == 0);
  CHECK(ahead.arrived(piece.token) == nullptr);
  CHECK(counters.prefetch_wasted_bytes > 0);
}

}  // namespace
}  // namespace twin
