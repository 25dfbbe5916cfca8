// The caching mode page (08h, SBC-3 6.5.5): its fields, and how a drive reacts when a field is changed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace twin {

enum class Behaviour : std::uint8_t {
  kFixed,       // marked as not changeable; a MODE SELECT that changes it is rejected
  kChangeable,  // marked as changeable; MODE SELECT changes it, and the drive behaves accordingly
  kRefused,     // marked as changeable, but a MODE SELECT that changes it is rejected
  kIgnored,     // marked as changeable; MODE SELECT succeeds, but changes nothing
};

struct CachingField {
  std::string_view name;  // sdparm's acronym
  std::uint8_t byte;      // position of its most significant byte in the page
  std::uint8_t bit;       // position of its least significant bit, for fields within a byte
  std::uint8_t width;     // in bits: 16, or up to 8 within a byte
};

inline constexpr std::size_t kCachingPageBytes = 20;
using CachingPage = std::array<std::uint8_t, kCachingPageBytes>;

inline constexpr std::array kCachingFields = std::to_array<CachingField>({
    {"IC", 2, 7, 1},     {"ABPF", 2, 6, 1},  {"CAP", 2, 5, 1},        {"DISC", 2, 4, 1},    {"SIZE", 2, 3, 1},
    {"WCE", 2, 2, 1},    {"MF", 2, 1, 1},    {"RCD", 2, 0, 1},        {"DRRP", 3, 4, 4},    {"WRP", 3, 0, 4},
    {"DPTL", 4, 0, 16},  {"MIPF", 6, 0, 16}, {"MAPF", 8, 0, 16},      {"MAPFC", 10, 0, 16}, {"FSW", 12, 7, 1},
    {"LBCSS", 12, 6, 1}, {"DRA", 12, 5, 1},  {"SYNC_PROG", 12, 1, 2}, {"NV_DIS", 12, 0, 1}, {"NCS", 13, 0, 8},
    {"CSS", 14, 0, 16},
});

// Returns the field with a name; nullptr if there is none.
const CachingField* find_caching_field(std::string_view name);

std::uint32_t get(const CachingPage& page, const CachingField& field);
void set(CachingPage& page, const CachingField& field, std::uint32_t value);

// Returns a page with its code and length, and 0 in all fields.
CachingPage empty_caching_page();

}  // namespace twin
