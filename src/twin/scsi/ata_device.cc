// IDENTIFY DEVICE and SMART, according to ACS-3.
#include "scsi/ata_device.h"

#include <algorithm>
#include <numeric>

namespace twin {
namespace {

enum : std::uint8_t {
  kReadLogExt = 0x2F,
  kCheckPowerMode = 0xE5,
  kFlushCache = 0xE7,
  kFlushCacheExt = 0xEA,
  kIdentifyDevice = 0xEC,
  kSmart = 0xB0,
};

// Subcommands of SMART, in the feature register.
enum : std::uint8_t {
  kReadData = 0xD0,
  kReadThresholds = 0xD1,
  kReadLog = 0xD5,
  kEnable = 0xD8,
  kReturnStatus = 0xDA,
};

void put_word(AtaSector& sector, std::size_t word, std::uint64_t value) {
  sector[2 * word] = static_cast<std::uint8_t>(value);
  sector[2 * word + 1] = static_cast<std::uint8_t>(value >> 8);
}

// Puts a number into `count` words, the least significant first.
void put_number(AtaSector& sector, std::size_t word, std::uint64_t value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) put_word(sector, word + i, value >> (16 * i));
}

// Puts text into `count` words, padded with spaces. The first character of a word is in its upper byte.
void put_text(AtaSector& sector, std::size_t word, const std::string& text, std::size_t count) {
  for (std::size_t i = 0; i < 2 * count; ++i) {
    sector[(2 * word + i) ^ 1] = i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{' '};
  }
}

// The last byte makes the sum of all bytes 0.
void put_checksum(AtaSector& sector) {
  sector.back() = 0;
  sector.back() = static_cast<std::uint8_t>(-std::accumulate(sector.begin(), sector.end(), 0));
}

// The generation of a SATA link from its payload rate: 1, 2 or 3; 0 if it is unknown.
unsigned generation(std::int64_t bytes_a_second) {
  constexpr std::int64_t kMost[] = {0, 150'000'000, 300'000'000};  // by generation, before encoding of 8 in 10 bits
  return static_cast<unsigned>(std::ranges::count_if(kMost, [&](std::int64_t most) { return bytes_a_second > most; }));
}

}  // namespace

AtaSector identify_data(const AtaIdentity& identity) {
  constexpr std::uint64_t kMost28Bits = 0x0FFFFFFF;
  constexpr std::uint64_t kValid = 0x4000;  // the word is valid
  const unsigned link = generation(identity.link_bytes_a_second);
  const bool queues = identity.queue_slots > 1;
  AtaSector sector{};
  put_word(sector, 0, 0x0040);  // an ATA device that is not removable
  // the geometry of a drive with more than 8 GB, which old programs require
  put_word(sector, 1, 16383);
  put_word(sector, 3, 16);
  put_word(sector, 6, 63);
  put_text(sector, 10, identity.serial, 10);
  put_text(sector, 23, identity.firmware, 4);
  put_text(sector, 27, identity.model, 20);
  put_word(sector, 47, 0x8001);  // one sector for each interrupt
  put_word(sector, 49, 0x0F00);  // DMA, LBA, IORDY
  put_word(sector, 50, kValid);
  put_word(sector, 53, 0x0006);  // words 64 to 70 and 88 are valid
  put_number(sector, 60, std::min(identity.sectors, kMost28Bits), 2);
  put_word(sector, 63, 0x0007);                                    // multiword DMA 0 to 2
  put_word(sector, 64, 0x0003);                                    // PIO 3 and 4
  for (std::size_t i = 65; i < 69; ++i) put_word(sector, i, 120);  // the cycle of these modes, in ns
  if (queues) put_word(sector, 75, identity.queue_slots - 1);
  if (link > 0) {
    put_word(sector, 76, ((2U << link) - 2) | (queues ? 0x0100U : 0U));  // the generations up to the drive's; NCQ
    put_word(sector, 77, link << 1);                                     // the current one
  }
  // words 80, 81 and 222 are 0: the drive does not report a version of the standards
  put_word(sector, 82, 0x0061);           // SMART, write cache and look-ahead are supported
  put_word(sector, 83, kValid | 0x3400);  // addresses of 48 bits, FLUSH CACHE and FLUSH CACHE EXT
  put_word(sector, 84, kValid | 0x0120);  // a world wide name, and general purpose logs
  put_word(sector, 85, 0x0001U | (identity.write_cache ? 0x0020U : 0U) | (identity.read_ahead ? 0x0040U : 0U));
  put_word(sector, 86, 0x3400);
  put_word(sector, 87, kValid | 0x0120);
  put_word(sector, 88, 0x407F);  // UDMA 0 to 6; 6 is selected
  put_number(sector, 100, identity.sectors, 4);
  put_word(sector, 106, kValid | 0x2003);  // eight sectors in a physical block
  for (std::size_t i = 0; i < 4; ++i) put_word(sector, 108 + i, identity.naa >> (16 * (3 - i)));
  put_word(sector, 119, kValid);
  put_word(sector, 120, kValid);
  put_word(sector, 168, identity.form_factor);
  if (identity.rotation == 1) put_word(sector, 169, 0x0001);  // TRIM
  put_word(sector, 217, identity.rotation);
  sector[510] = 0xA5;  // the last byte is a checksum
  put_checksum(sector);
  return sector;
}

AtaResult AtaDevice::execute(const Registers& registers, const AtaIdentity& identity) {
  AtaResult result;
  switch (registers.command) {
    case kIdentifyDevice:
      buffer_ = identify_data(identity);
      result.data = &buffer_;
      return result;
    case kSmart:
      return smart(registers);
    case kReadLogExt:  // the only log is the directory of the logs
      if (registers.lba_low != 0) {
        result.aborted = true;
        return result;
      }
      read_log_directory(result);
      return result;
    case kCheckPowerMode:
      result.count = 0xFF;  // active or idle
      return result;
    case kFlushCache:
    case kFlushCacheExt:
      return result;
    default:
      result.aborted = true;
      return result;
  }
}

// The directory has a version, and no other log.
void AtaDevice::read_log_directory(AtaResult& result) {
  buffer_ = {};
  put_word(buffer_, 0, 1);
  result.data = &buffer_;
}

// SMART reports that no threshold is exceeded, and has no attributes: the model has no values for them.
AtaResult AtaDevice::smart(const Registers& registers) {
  AtaResult result;
  result.lba_mid = registers.lba_mid;
  result.lba_high = registers.lba_high;
  switch (registers.features) {
    case kReadData:
    case kReadThresholds:
      buffer_ = {};
      buffer_[0] = 0x10;  // revision of the structure
      put_checksum(buffer_);
      result.data = &buffer_;
      break;
    case kReadLog:
      if (registers.lba_low == 0) {
        read_log_directory(result);
      } else {
        result.aborted = true;
      }
      break;
    case kEnable:
    case kReturnStatus:  // the registers keep their values
      break;
    default:
      result.aborted = true;
  }
  // the signature C24Fh must be in these registers
  if (registers.lba_mid != 0x4F || registers.lba_high != 0xC2) result.aborted = true;
  if (result.aborted) result.data = nullptr;
  return result;
}

}  // namespace twin
