// Where the sectors of a hard disk lie, and how long it takes to reach them: zones, tracks, seeks, rotation.
#pragma once

#include <cstdint>
#include <vector>

#include "core/units.h"
#include "disk/disk_parameters.h"

namespace twin {

// The physical address of a sector: cylinder, head, sector.
struct ChsAddress {
  std::int64_t cylinder = 0;
  std::int64_t head = 0;
  std::int64_t sector = 0;         // of its track
  std::int64_t track_sectors = 1;  // of that track
};

// Sectors are numbered along tracks, the tracks of a cylinder one after another, cylinders from the outside in. Each
// track begins later than the one before by the time of the switch between them (skew), so that reading on loses no
// revolution: a track takes one revolution and one switch, and the rate of a zone follows from that.
class DiskGeometry {
 public:
  // Throws std::invalid_argument, naming the parameter, when the tracks do not hold the capacity.
  DiskGeometry(const DiskParameters& parameters, std::int64_t capacity_bytes);

  [[nodiscard]] ChsAddress locate(std::uint64_t lba) const;

  // Time to another cylinder, 0 for the same: a + b * sqrt(distance) + c * distance (C. Ruemmler and J. Wilkes, An
  // introduction to disk drive modeling, IEEE Computer 27(3), 1994), through the three seek times of the parameters.
  [[nodiscard]] Nanoseconds seek_ns(std::int64_t from_cylinder, std::int64_t to_cylinder) const;

  // How long after `when` the sector at `chs` comes under its head.
  [[nodiscard]] Nanoseconds rotation_ns(const ChsAddress& chs, Nanoseconds when) const;

  // Time to read or write `sectors` from `lba` on, once that sector is under the head, track switches included.
  [[nodiscard]] Nanoseconds transfer_ns(std::uint64_t lba, std::uint64_t sectors) const;

  [[nodiscard]] Nanoseconds revolution_ns() const { return revolution_ns_; }

 private:
  struct Zone {
    std::uint64_t first_lba;
    std::int64_t first_cylinder;
    std::int64_t track_sectors;
  };

  [[nodiscard]] Nanoseconds begin_of_track(const ChsAddress& chs) const;

  std::int64_t heads_;
  Nanoseconds revolution_ns_;
  Nanoseconds head_switch_ns_;
  Nanoseconds track_to_track_ns_;
  double seek_constant_, seek_root_, seek_linear_;
  std::vector<Zone> zones_;
};

}  // namespace twin
