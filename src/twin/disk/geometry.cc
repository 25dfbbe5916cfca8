// Zones derived from their rates, the seek curve derived from three points, and angles derived from times.
#include "disk/geometry.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace twin {

DiskGeometry::DiskGeometry(const DiskParameters& parameters, std::int64_t capacity_bytes)
    : heads_(parameters.heads),
      revolution_ns_(60 * kSecond / parameters.rotation_rpm),
      head_switch_ns_(parameters.head_switch),
      track_to_track_ns_(parameters.track_to_track_seek) {
  if (parameters.zones > parameters.cylinders)
    throw std::invalid_argument("disk.zones: must not be more than cylinders");
  if (parameters.inner_rate > parameters.outer_rate) {
    throw std::invalid_argument("disk.inner_rate: must not be more than outer_rate");
  }
  std::uint64_t lba = 0;
  for (std::int64_t zone = 0; zone < parameters.zones; ++zone) {
    const std::int64_t first = parameters.cylinders * zone / parameters.zones;
    const std::int64_t end = parameters.cylinders * (zone + 1) / parameters.zones;
    const std::int64_t steps = std::max<std::int64_t>(1, parameters.zones - 1);
    const std::int64_t rate = parameters.outer_rate - (parameters.outer_rate - parameters.inner_rate) * zone / steps;
    const double track_s = static_cast<double>(revolution_ns_ + head_switch_ns_) / 1e9;
    const auto sectors =
        static_cast<std::int64_t>(static_cast<double>(rate) * track_s / static_cast<double>(kSectorBytes));
    if (sectors < 1) throw std::invalid_argument("disk.inner_rate: must be at least one sector in a revolution");
    zones_.push_back({lba, first, sectors});
    lba += static_cast<std::uint64_t>((end - first) * heads_ * sectors);
  }
  if (static_cast<std::int64_t>(lba * kSectorBytes) < capacity_bytes) {
    throw std::invalid_argument("disk.cylinders: must be larger: with these heads and rates the tracks hold " +
                                std::to_string(lba * kSectorBytes) + " bytes, less than capacity.size");
  }
  // The seek curve meets seek(1) = track_to_track_seek and seek(all) = full_seek, and its mean over random pairs of
  // cylinders is average_seek. Over such pairs, the mean distance is a third of all cylinders, and the mean square root
  // of the distance is 8/15 of the square root of all cylinders.
  const double all = static_cast<double>(std::max<std::int64_t>(2, parameters.cylinders - 1));
  const double root = std::sqrt(all);
  const auto near = static_cast<double>(parameters.track_to_track_seek);
  const auto mean = static_cast<double>(parameters.average_seek);
  const auto far = static_cast<double>(parameters.full_seek);
  if (!(near <= mean && mean <= far)) {
    throw std::invalid_argument("disk.average_seek: must be between track_to_track_seek and full_seek");
  }
  // solves a + b r + c d = t for (r, d, t) = (1, 1, near), (8/15 root, all/3, mean), (root, all, far)
  const double r1 = root * 8 / 15 - 1;
  const double d1 = all / 3 - 1;
  const double r2 = root - 1;
  const double d2 = all - 1;
  const double determinant = r1 * d2 - r2 * d1;
  seek_root_ = ((mean - near) * d2 - (far - near) * d1) / determinant;
  seek_linear_ = (r1 * (far - near) - r2 * (mean - near)) / determinant;
  seek_constant_ = near - seek_root_ - seek_linear_;
  if (seek_root_ < 0 || seek_root_ / (2 * root) + seek_linear_ < 0) {
    throw std::invalid_argument(
        "disk.average_seek: contradicts the other two seek times: longer seeks would take less time");
  }
}

ChsAddress DiskGeometry::locate(std::uint64_t lba) const {
  const auto after = std::upper_bound(zones_.begin(), zones_.end(), lba,
                                      [](std::uint64_t value, const Zone& zone) { return value < zone.first_lba; });
  const Zone& zone = *(after - 1);
  const auto in_zone = static_cast<std::int64_t>(lba - zone.first_lba);
  const std::int64_t track = in_zone / zone.track_sectors;
  return {zone.first_cylinder + track / heads_, track % heads_, in_zone % zone.track_sectors, zone.track_sectors};
}

Nanoseconds DiskGeometry::seek_ns(std::int64_t from_cylinder, std::int64_t to_cylinder) const {
  const std::int64_t distance = std::abs(from_cylinder - to_cylinder);
  if (distance == 0) return 0;
  const auto d = static_cast<double>(distance);
  return std::llround(seek_constant_ + seek_root_ * std::sqrt(d) + seek_linear_ * d);
}

// Returns the time in each revolution at which a track begins: later than the previous track by the time of the switch.
Nanoseconds DiskGeometry::track_begin_ns(const ChsAddress& chs) const {
  const Nanoseconds cylinder_ns = (heads_ - 1) * head_switch_ns_ + track_to_track_ns_;
  return (chs.cylinder * cylinder_ns + chs.head * head_switch_ns_) % revolution_ns_;
}

Nanoseconds DiskGeometry::rotation_ns(const ChsAddress& chs, Nanoseconds when) const {
  const Nanoseconds position = track_begin_ns(chs) + chs.sector * revolution_ns_ / chs.track_sectors;
  const Nanoseconds wait = (position - when) % revolution_ns_;
  return wait < 0 ? wait + revolution_ns_ : wait;
}

Nanoseconds DiskGeometry::transfer_ns(std::uint64_t lba, std::uint64_t sectors) const {
  Nanoseconds time = 0;
  while (sectors > 0) {
    const ChsAddress chs = locate(lba);
    const auto in_track = std::min(sectors, static_cast<std::uint64_t>(chs.track_sectors - chs.sector));
    time += static_cast<Nanoseconds>(in_track) * revolution_ns_ / chs.track_sectors;
    sectors -= in_track;
    lba += in_track;
    if (sectors > 0) time += chs.head + 1 < heads_ ? head_switch_ns_ : track_to_track_ns_;
  }
  return time;
}

}  // namespace twin
