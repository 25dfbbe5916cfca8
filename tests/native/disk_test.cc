// The geometry of the hard disk: seeks, rotation and sequential transfer.
#include <doctest/doctest.h>

#include <cstdlib>
#include <random>
#include <stdexcept>

#include "disk/geometry.h"

namespace twin {
namespace {

DiskParameters typical_disk() {
  DiskParameters disk;
  disk.rotation_rpm = 7200;
  disk.heads = 2;
  disk.cylinders = 370'000;
  disk.zones = 24;
  disk.outer_rate = 200'000'000;
  disk.inner_rate = 95'000'000;
  disk.track_to_track_seek = kMillisecond;
  disk.average_seek = 8'500'000;
  disk.full_seek = 18 * kMillisecond;
  disk.head_switch = kMillisecond;
  return disk;
}

constexpr std::int64_t kCapacity = 1'000'204'886'016;

TEST_CASE("seek times grow with the distance and match the three given times") {
  const DiskParameters disk = typical_disk();
  const DiskGeometry geometry(disk, kCapacity);
  CHECK(geometry.seek_ns(5, 5) == 0);
  CHECK(std::abs(geometry.seek_ns(0, 1) - disk.track_to_track_seek) <= 1000);
  CHECK(std::abs(geometry.seek_ns(0, disk.cylinders - 1) - disk.full_seek) <= 1000);
  Nanoseconds before = 0;
  for (std::int64_t distance = 1; distance < disk.cylinders; distance += 997) {
    const Nanoseconds time = geometry.seek_ns(0, distance);
    REQUIRE(time >= before);
    before = time;
  }
  std::mt19937_64 chance(1);
  double sum = 0;
  constexpr int kPairs = 200'000;
  for (int i = 0; i < kPairs; ++i) {
    const auto from = static_cast<std::int64_t>(chance() % static_cast<std::uint64_t>(disk.cylinders));
    const auto to = static_cast<std::int64_t>(chance() % static_cast<std::uint64_t>(disk.cylinders));
    sum += static_cast<double>(geometry.seek_ns(from, to));
  }
  CHECK(sum / kPairs == doctest::Approx(static_cast<double>(disk.average_seek)).epsilon(0.01));
}

TEST_CASE("a sector is reached within a revolution, and the next sector without a pause") {
  const DiskGeometry geometry(typical_disk(), kCapacity);
  for (const std::uint64_t lba : {0ULL, 12'345ULL, 1'000'000'000ULL}) {
    const Nanoseconds wait = geometry.rotation_ns(geometry.locate(lba), 1'000'000);
    CHECK(wait >= 0);
    CHECK(wait < geometry.revolution_ns());
    CHECK(geometry.rotation_ns(geometry.locate(lba), 1'000'000 + wait) == 0);
    const Nanoseconds end = 1'000'000 + wait + geometry.transfer_ns(lba, 5000);
    // over track and cylinder boundaries the next sector follows at once, apart from rounding
    const Nanoseconds next = geometry.rotation_ns(geometry.locate(lba + 5000), end);
    CHECK(std::min(next, geometry.revolution_ns() - next) < 10'000);
  }
}

TEST_CASE("sequential transfer has the rate of the zone") {
  const DiskParameters disk = typical_disk();
  const DiskGeometry geometry(disk, kCapacity);
  constexpr std::uint64_t kSectors = 400'000;
  const auto rate = [&](std::uint64_t lba) {
    return static_cast<double>(kSectors * kSectorBytes) / static_cast<double>(geometry.transfer_ns(lba, kSectors)) *
           1e9;
  };
  CHECK(rate(0) == doctest::Approx(static_cast<double>(disk.outer_rate)).epsilon(0.03));
  CHECK(rate(kCapacity / 512 - kSectors) == doctest::Approx(static_cast<double>(disk.inner_rate)).epsilon(0.06));
}

TEST_CASE("tracks too small for the capacity are refused with the name of the parameter") {
  DiskParameters disk = typical_disk();
  disk.cylinders = 1000;
  CHECK_THROWS_WITH_AS(DiskGeometry(disk, kCapacity), doctest::Contains("disk.cylinders"), std::invalid_argument);
}

}  // namespace
}  // namespace twin
