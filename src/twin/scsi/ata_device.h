// The ATA side of a simulated SATA drive, behind the translation of SCSI (SAT-3): IDENTIFY DEVICE and SMART.
//
// A field for which the model has no value is reported as the standard (ACS-3) provides: as not reported, not supported
// or not valid.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace twin {

// What the drive reports about itself.
struct AtaIdentity {
  std::string model;
  std::string firmware;
  std::string serial;
  std::uint64_t naa = 0;
  std::uint64_t sectors = 0;
  std::uint32_t rotation = 1;  // per minute; 1: not rotating
  std::uint32_t form_factor = 0;
  std::int64_t link_bytes_a_second = 0;  // 0: unknown
  std::uint32_t queue_slots = 1;
  bool write_cache = false;
  bool read_ahead = false;
};

using AtaSector = std::array<std::uint8_t, 512>;

// The data of IDENTIFY DEVICE.
AtaSector identify_data(const AtaIdentity& identity);

// The registers that a command sets, and its data: none, or one sector.
struct AtaResult {
  bool aborted = false;
  std::uint8_t lba_mid = 0;
  std::uint8_t lba_high = 0;
  std::uint8_t count = 0;
  const AtaSector* data = nullptr;
};

// Executes commands of the kind "non-data" and "data in". All other commands are aborted.
class AtaDevice {
 public:
  struct Registers {
    std::uint8_t command;
    std::uint8_t features;
    std::uint8_t lba_low;
    std::uint8_t lba_mid;
    std::uint8_t lba_high;
  };

  AtaResult execute(const Registers& registers, const AtaIdentity& identity);

 private:
  AtaResult smart(const Registers& registers);
  void read_log_directory(AtaResult& result);

  AtaSector buffer_{};
};

}  // namespace twin
