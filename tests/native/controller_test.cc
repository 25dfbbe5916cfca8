// The parts of the controller: unit table, read cache, write buffer, read-ahead.
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

TEST_CASE("a unit table contains the same as a std::map after random insertions and removals") {
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

TEST_CASE("a read cache contains the unit read last and no removed unit") {
  ReadCache cache(64 * 4096, 4096, true);
  std::mt19937_64 random(3);
  std::set<std::uint64_t> removed;
  for (int step = 0; step < 50'000; ++step) {
    const std::uint64_t unit = random() % 200;
    if (random() % 5 == 0) {
      const std::uint64_t end = unit + 1 + random() % (random() % 10 == 0 ? 300 : 4);
      cache.remove_range(unit, end);
      for (std::uint64_t each = unit; each < end; ++each) removed.insert(each);
    } else if (random() % 2 == 0) {
      cache.insert(unit);
      removed.erase(unit);
      REQUIRE(cache.hit(unit));
    } else if (cache.hit(unit)) {
      REQUIRE(!removed.contains(unit));
    }
  }
}

TEST_CASE("a read cache that is off or has size 0 contains nothing") {
  for (const auto& [size, enabled] : {std::pair<std::uint64_t, bool>{1 << 20, false}, {0, true}}) {
    ReadCache cache(size, 4096, enabled);
    cache.insert(1);
    CHECK_FALSE(cache.hit(1));
    cache.remove_range(0, 10);
  }
}

WriteBufferParameters buffer_of(std::int64_t units, std::int64_t segments = 1) {
  WriteBufferParameters parameters;
  parameters.size = units * 4096;
  parameters.segments = segments;
  return parameters;
}

TEST_CASE("a write buffer never exceeds its size, and every added unit leaves once") {
  constexpr std::uint64_t kUnits = 64;
  WriteBuffer buffer(buffer_of(kUnits), 4096, 8, 3);
  std::mt19937_64 random(11);
  std::multiset<std::uint64_t> waiting;  // units that must still go to flash
  std::map<std::uint32_t, std::vector<std::uint64_t>> outstanding;
  std::uint64_t outstanding_units = 0;
  std::vector<std::uint64_t> batch;
  for (int step = 0; step < 100'000; ++step) {
    const std::uint64_t unit = random() % 150;
    switch (random() % 4) {
      case 0:
      case 1: {
        const bool known = waiting.contains(unit);
        const bool added = buffer.add(unit);
        if (known) REQUIRE(added);
        if (added && !known) waiting.insert(unit);
        if (added) REQUIRE(buffer.contains(unit));
        break;
      }
      case 2:
        if (!waiting.empty() && buffer.can_begin_batch()) {
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
          buffer.drop_range(unit, unit + 3);
          for (std::uint64_t each = unit; each < unit + 3; ++each) waiting.erase(each);
        }
    }
    REQUIRE(buffer.waiting_units() == waiting.size());
    REQUIRE(waiting.size() + outstanding_units <= kUnits);
  }
  CHECK(buffer.units_removed() <= buffer.units_added());
}

TEST_CASE("a write buffer distinguishes as many streams as it has segments") {
  for (const std::int64_t segments : {1, 2}) {
    WriteBuffer buffer(buffer_of(64, segments), 4096, 8, 1);
    CHECK_FALSE(buffer.continues_stream(0, 4096));
    CHECK(buffer.continues_stream(4096, 4096));
    CHECK_FALSE(buffer.continues_stream(1 << 20, 4096));
    CHECK(buffer.continues_stream(8192, 4096) == (segments == 2));
  }
}

// Parameters with pieces of 64 KiB.
ReadAheadParameters ahead_of(std::int64_t window, std::int64_t streams = 1) {
  ReadAheadParameters parameters;
  parameters.window = window;
  parameters.refill = 64 * 1024;
  parameters.streams = streams;
  parameters.trigger_commands = 2;
  return parameters;
}

Request read_at(std::uint64_t offset_bytes) { return {Operation::kRead, 0, offset_bytes, 4096}; }

TEST_CASE("read-ahead starts at the trigger command and fills exactly the window") {
  Counters counters;
  ReadAhead ahead(ahead_of(256 * 1024), 4096, 1 << 30, counters);
  CHECK_FALSE(ahead.reserve_next_piece(ahead.observe(read_at(0))));
  const int stream = ahead.observe(read_at(4096));
  std::uint64_t end = 8192;
  while (const auto piece = ahead.reserve_next_piece(stream)) {
    CHECK(piece->begin_bytes == end);
    end = piece->end_bytes;
    CHECK(end % (64 * 1024) == 0);
  }
  CHECK(end == 256 * 1024);
  CHECK(counters.prefetched_bytes == end - 8192);
}

TEST_CASE("a read waits for its piece, and is returned when the piece is complete") {
  Counters counters;
  ReadAhead ahead(ahead_of(128 * 1024), 4096, 1 << 30, counters);
  ahead.observe(read_at(0));
  int stream = ahead.observe(read_at(4096));
  const auto piece = ahead.reserve_next_piece(stream);
  REQUIRE(piece);
  stream = ahead.observe(read_at(8192));
  CHECK(ahead.covered_bytes(stream, 8192) == 56 * 1024);
  Command command;
  CHECK_FALSE(ahead.ready_or_enqueue(stream, 12288, command));
  CHECK(ahead.complete_piece(piece->token) == &command);
  CHECK(ahead.ready_or_enqueue(stream, 12288, command));
}

TEST_CASE("interleaved readers reset each other with one stream, but not with two") {
  for (const std::int64_t streams : {1, 2}) {
    Counters counters;
    ReadAhead ahead(ahead_of(128 * 1024, streams), 4096, 1 << 30, counters);
    bool prefetched = false;
    for (std::uint64_t i = 0; i < 8; ++i) {
      for (const std::uint64_t base : {0ULL, 1ULL << 24}) {
        const int stream = ahead.observe(read_at(base + i * 4096));
        if (stream != ReadAhead::kNoStream) prefetched |= ahead.reserve_next_piece(stream).has_value();
      }
    }
    CHECK(prefetched == (streams == 2));
  }
}

TEST_CASE("a write to prefetched data restarts the stream") {
  Counters counters;
  ReadAhead ahead(ahead_of(128 * 1024), 4096, 1 << 30, counters);
  ahead.observe(read_at(0));
  const int stream = ahead.observe(read_at(4096));
  const auto piece = ahead.reserve_next_piece(stream);
  REQUIRE(piece);
  ahead.invalidate(16384, 4096);
  CHECK(ahead.covered_bytes(stream, 8192) == 0);
  CHECK(ahead.complete_piece(piece->token) == nullptr);
  CHECK(counters.prefetch_wasted_bytes > 0);
}

// A stream whose window is two pieces, and a command that waits for both.
struct WaitingReader {
  Counters counters;
  ReadAhead ahead{ahead_of(192 * 1024), 4096, 1 << 30, counters};
  Command command;
  int stream = 0;
  ReadAhead::Piece first, second;

  WaitingReader() {
    ahead.observe(read_at(0));
    ahead.observe(read_at(4096));
    stream = ahead.observe({Operation::kRead, 0, 8192, 120 * 1024});
    first = *ahead.reserve_next_piece(stream);
    second = *ahead.reserve_next_piece(stream);
    stream = ahead.observe({Operation::kRead, 0, first.begin_bytes, 128 * 1024});
    REQUIRE_FALSE(ahead.ready_or_enqueue(stream, second.end_bytes, command));
  }

  // The command receives its data as if nothing had happened.
  void complete() {
    CHECK(ahead.complete_piece(first.token) == &command);
    CHECK_FALSE(ahead.ready_or_enqueue(stream, second.end_bytes, command));
    CHECK(ahead.complete_piece(second.token) == &command);
    CHECK(ahead.ready_or_enqueue(stream, second.end_bytes, command));
  }
};

TEST_CASE("a write to data for which a command waits hides them from later commands") {
  WaitingReader reader;
  reader.ahead.invalidate(reader.second.begin_bytes, 4096);
  const Request next{Operation::kRead, 0, reader.first.begin_bytes + 128 * 1024, 4096};
  const int stream = reader.ahead.observe(next);
  REQUIRE(stream != ReadAhead::kNoStream);
  CHECK(reader.ahead.covered_bytes(stream, reader.second.begin_bytes) == 0);
  CHECK(reader.ahead.covered_bytes(reader.stream, reader.second.begin_bytes) == 0);
  CHECK_FALSE(reader.ahead.reserve_next_piece(reader.stream));
  CHECK(reader.ahead.reserve_next_piece(stream));  // the reader goes on, and data are prefetched for it again
  reader.complete();
}

TEST_CASE("a new reader gets a stream although a command waits for the only one") {
  WaitingReader reader;
  constexpr std::uint64_t kElsewhere = 1 << 24;
  const int stream = reader.ahead.observe(read_at(kElsewhere));
  REQUIRE(stream != ReadAhead::kNoStream);
  CHECK(reader.ahead.observe(read_at(kElsewhere + 4096)) == stream);
  const auto piece = reader.ahead.reserve_next_piece(stream);
  REQUIRE(piece);
  reader.complete();
  CHECK(reader.ahead.complete_piece(piece->token) == nullptr);
  CHECK(reader.ahead.covered_bytes(stream, kElsewhere + 8192) > 0);
  // a command of the first reader that completes late drops no data of the second one
  reader.ahead.release_below(stream, 1 << 28);
  CHECK(reader.ahead.covered_bytes(stream, kElsewhere + 8192) > 0);
}

TEST_CASE("there is one stream for each reader, and one for each that commands still wait for") {
  WaitingReader reader;
  std::set<int> streams;
  for (std::uint64_t i = 1; i < 100; ++i) streams.insert(reader.ahead.observe(read_at(i << 20)));
  CHECK(streams.size() == 1);
  reader.complete();
  reader.ahead.invalidate(0, 1 << 30);
  for (std::uint64_t i = 1; i < 100; ++i) streams.insert(reader.ahead.observe(read_at(i << 20)));
  CHECK(streams.size() == 1);
}

}  // namespace
}  // namespace twin
