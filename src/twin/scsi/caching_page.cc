// Reading and writing the fields of the caching mode page.
#include "scsi/caching_page.h"

#include <algorithm>

namespace twin {

const CachingField* find_caching_field(std::string_view name) {
  const auto found = std::ranges::find(kCachingFields, name, &CachingField::name);
  return found == kCachingFields.end() ? nullptr : &*found;
}

std::uint32_t get(const CachingPage& page, const CachingField& field) {
  if (field.width == 16) return static_cast<std::uint32_t>(page[field.byte]) << 8 | page[field.byte + 1U];
  return static_cast<std::uint32_t>(page[field.byte] >> field.bit) & ((1U << field.width) - 1);
}

void set(CachingPage& page, const CachingField& field, std::uint32_t value) {
  if (field.width == 16) {
    page[field.byte] = static_cast<std::uint8_t>(value >> 8);
    page[field.byte + 1U] = static_cast<std::uint8_t>(value);
    return;
  }
  const std::uint32_t mask = ((1U << field.width) - 1) << field.bit;
  page[field.byte] = static_cast<std::uint8_t>((page[field.byte] & ~mask) | ((value << field.bit) & mask));
}

CachingPage empty_caching_page() { return {0x08, kCachingPageBytes - 2}; }

}  // namespace twin
