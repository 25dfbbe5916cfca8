// The data structures of admin commands. Numbers in them are little-endian.
#include "nvme/nvme_controller.h"

#include <algorithm>
#include <cstring>

#include "core/units.h"

namespace twin {
namespace {

enum : std::uint8_t { kGetLogPage = 0x02, kIdentify = 0x06, kGetFeatures = 0x0A };

// Values of the status field, with "do not retry".
constexpr std::uint16_t kInvalidOpcode = 0x4001;
constexpr std::uint16_t kInvalidField = 0x4002;
constexpr std::uint16_t kInvalidNamespace = 0x400B;
constexpr std::uint16_t kInvalidLogPage = 0x4109;

constexpr std::uint32_t kNamespace = 1;  // the only one
constexpr std::uint32_t kAllNamespaces = ~0U;

void put(auto& page, std::size_t at, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) page[at + i] = static_cast<std::uint8_t>(value >> (8 * i));
}

// Puts text of a fixed width, padded with spaces.
void put_text(auto& page, std::size_t at, const std::string& text, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) {
    page[at + i] = i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{' '};
  }
}

void put_big_endian(auto& page, std::size_t at, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) page[at + i] = static_cast<std::uint8_t>(value >> (8 * (bytes - 1 - i)));
}

}  // namespace

const std::string& NvmeController::value(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) throw std::invalid_argument(key + ": is missing");
  return found->second;
}

std::int64_t NvmeController::number(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? 0 : parse_number<std::int64_t>(key, found->second);
}

std::string NvmeController::model() const { return value("identity.vendor") + " " + value("identity.product"); }

NvmeResult NvmeController::execute(const Command& command, std::uint8_t* data, std::size_t data_bytes) const {
  Page page{};
  switch (command.opcode) {
    case kIdentify:
      if (!identify(command, page)) return {kInvalidField};
      break;
    case kGetLogPage: {
      if (!log_page(static_cast<std::uint8_t>(command.cdw10), page)) return {kInvalidLogPage};
      const std::size_t wanted = 4 * (((command.cdw11 & 0xFFFF) << 16 | command.cdw10 >> 16) + std::size_t{1});
      const std::size_t offset = std::min<std::size_t>(command.cdw12, page.size());
      std::copy(page.begin() + static_cast<std::ptrdiff_t>(offset), page.end(), page.begin());
      data_bytes = std::min(data_bytes, wanted);
      break;
    }
    case kGetFeatures:
      if ((command.cdw10 & 0xFF) != 0x06 || !caches_writes()) return {kInvalidField};
      return {0, 1};  // the volatile write cache is on
    default:
      return {kInvalidOpcode};
  }
  if (command.opcode == kIdentify && (command.cdw10 & 0xFF) == 0 && command.namespace_id != kNamespace &&
      command.namespace_id != kAllNamespaces) {
    return {kInvalidNamespace};
  }
  if (data != nullptr) {
    const std::size_t size = std::min(data_bytes, page.size());
    std::memcpy(data, page.data(), size);
    std::memset(data + size, 0, data_bytes - size);
  }
  return {};
}

bool NvmeController::identify(const Command& command, Page& page) const {
  const auto eui = parse_number<std::uint64_t>("identity.naa", value("identity.naa"), 16);
  switch (command.cdw10 & 0xFF) {
    case 0x00: {  // the namespace
      const auto sectors = static_cast<std::uint64_t>(number("capacity.size")) / kSectorBytes;
      for (const std::size_t at : {0, 8, 16}) put(page, at, sectors, 8);  // size, capacity, use
      put_big_endian(page, 120, eui, 8);
      page[130] = 9;  // the only format: sectors of 2^9 bytes
      return true;
    }
    case 0x01:  // the controller
      put_text(page, 4, value("identity.serial"), 20);
      put_text(page, 24, model(), 40);
      put_text(page, 64, value("identity.revision"), 8);
      put(page, 80, 0x00010400, 4);  // version 1.4
      page[111] = 0x01;              // an I/O controller
      page[260] = 0x02;              // one slot for firmware
      page[512] = 0x66;              // entries of submission queues: 64 bytes
      page[513] = 0x44;              // of completion queues: 16 bytes
      put(page, 516, 1, 4);          // namespaces
      put(page, 520, 0x0004, 2);     // Dataset Management, with which a host deallocates
      page[525] = caches_writes() ? 1 : 0;
      return true;
    case 0x02:  // the active namespaces after a number
      if (command.namespace_id == 0) put(page, 0, kNamespace, 4);
      return true;
    case 0x03:  // descriptors of the namespace: EUI64
      page[0] = 1;
      page[1] = 8;
      put_big_endian(page, 4, eui, 8);
      return true;
    default:
      return false;
  }
}

bool NvmeController::log_page(std::uint8_t identifier, Page& page) const {
  switch (identifier) {
    case 0x01:  // errors: none
      return true;
    case 0x02: {      // health
      page[3] = 100;  // available spare, in percent
      const std::int64_t rated_cycles = number("ageing.rated_cycles");
      if (rated_cycles > 0) {
        const std::int64_t percent = number("ageing.cycles") * 100 / rated_cycles;
        page[5] = static_cast<std::uint8_t>(std::min<std::int64_t>(percent, 255));
      }
      return true;
    }
    case 0x03:  // firmware: slot 1 is active
      page[0] = 1;
      put_text(page, 8, value("identity.revision"), 8);
      return true;
    default:
      return false;
  }
}

}  // namespace twin
