// The positions of a hard disk's sectors, and the times to reach them: zones, tracks, seeks, rotation.
#pragma once

#include <cstdint>
#include <vector>

#include "core/units.h"
#include "disk/disk_parameters.h"

namespace twin {

// The physical address of a sector.
struct ChsAddress {
  std::int64_t cylinder = 0;
  std::int64_t head = 0;
  std::int64_t sector = 0;         // in its track
  std::int64_t track_sectors = 1;  // number of sectors in the track
};

// Sectors are numbered along the tracks: one track of a cylinder after another, and the cylinders from the outside in.
// Each track begins later than the previous one by the time of the switch between the two (skew), so sequential reading
// loses no revolution. A track takes one revolution and one switch; the rate of a zone follows from that.
class DiskGeometry {
 public:
  // Throws std::invalid_argument, naming the parameter, if the tracks are too small for the capacity or the seek times
  // contradict each other.
  DiskGeometry(const DiskParameters& parameters, std::int64_t capacity_bytes);

  [[nodiscard]] ChsAddress locate(std::uint64_t lba) const;

  // Returns the seek time between two cylinders, 0 if they are equal: a + b * sqrt(distance) + c * distance (C.
  // Ruemmler and J. Wilkes, An introduction to disk drive modeling, IEEE Computer 27(3), 1994), where a, b and c follow
  // from the three seek times in the parameters.
  [[nodiscard]] Nanoseconds seek_ns(std::int64_t from_cylinder, std::int64_t to_cylinder) const;

  // Returns the time from `when` until the sector at `chs` is under its head.
  [[nodiscard]] Nanoseconds rotation_ns(const ChsAddress& chs, Nanoseconds when) const;

  // Returns the time to read or write `sectors` from `lba` on, beginning when that sector is under the head. Includes
  // track switches.
  [[nodiscard]] Nanoseconds transfer_ns(std::uint64_t lba, std::uint64_t sectors) const;

  [[nodiscard]] Nanoseconds revolution_ns() const { return revolution_ns_; }

 private:
  struct Zone {
    std::uint64_t first_lba;
    std::int64_t first_cylinder;
    std::int64_t track_sectors;
  };

  [[nodiscard]] Nanoseconds track_begin_ns(const ChsAddress& chs) const;

  std::int64_t heads_;
  Nanoseconds revolution_ns_;
  Nanoseconds head_switch_ns_;
  Nanoseconds track_to_track_ns_;
  double seek_constant_, seek_root_, seek_linear_;
  std::vector<Zone> zones_;
};

}  // namespace twin
