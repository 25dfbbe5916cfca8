// How a layer declares its parameters: once, with name, unit, range and description. Whatever reads, checks, describes
// or fits a model file uses these declarations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "core/units.h"

namespace twin {

enum class Unit : std::uint8_t { kCount, kNanoseconds, kBytes, kBytesPerSecond };

// Visits each parameter of a layer. `text` describes the parameter in one phrase. `name` contains no unit, because
// model files write the unit with the value (`read_time: 72 us`).
class FieldVisitor {
 public:
  virtual void number(const char* name, std::int64_t& value, Unit unit, std::int64_t minimum, std::int64_t maximum,
                      const char* text) = 0;
  virtual void ratio(const char* name, double& value, double minimum, double maximum, const char* text) = 0;
  virtual void toggle(const char* name, bool& value, const char* text) = 0;
  // A number or ratio that a model file may leave out. The value before the visit is then its value, and must leave a
  // drive as it was before the parameter existed: files from before then describe the same drive.
  virtual void optional_number(const char* name, std::int64_t& value, Unit unit, std::int64_t minimum,
                               std::int64_t maximum, const char* text) = 0;
  virtual void optional_ratio(const char* name, double& value, double minimum, double maximum, const char* text) = 0;

  void time(const char* name, Nanoseconds& value, Nanoseconds maximum, const char* text) {
    number(name, value, Unit::kNanoseconds, 0, maximum, text);
  }
  void count(const char* name, std::int64_t& value, std::int64_t minimum, std::int64_t maximum, const char* text) {
    number(name, value, Unit::kCount, minimum, maximum, text);
  }
  void size(const char* name, std::int64_t& value, std::int64_t minimum, std::int64_t maximum, const char* text) {
    number(name, value, Unit::kBytes, minimum, maximum, text);
  }
  void rate(const char* name, std::int64_t& value, std::int64_t minimum, std::int64_t maximum, const char* text) {
    number(name, value, Unit::kBytesPerSecond, minimum, maximum, text);
  }
  void optional_time(const char* name, Nanoseconds& value, Nanoseconds maximum, const char* text) {
    optional_number(name, value, Unit::kNanoseconds, 0, maximum, text);
  }
  void optional_count(const char* name, std::int64_t& value, std::int64_t minimum, std::int64_t maximum,
                      const char* text) {
    optional_number(name, value, Unit::kCount, minimum, maximum, text);
  }
  void optional_size(const char* name, std::int64_t& value, std::int64_t minimum, std::int64_t maximum,
                     const char* text) {
    optional_number(name, value, Unit::kBytes, minimum, maximum, text);
  }

  // `choices` names the enumerators of Enum, whose values must be 0, 1, 2, ... in this order.
  template <class Enum>
  void choice(const char* name, Enum& value, std::initializer_list<const char*> choices, const char* text) {
    static_assert(std::is_enum_v<Enum>);
    value = static_cast<Enum>(choose(name, static_cast<std::size_t>(value), choices, text));
  }

 protected:
  // Returns the index in `choices` of the value to set. `current` is the index of the current value.
  virtual std::size_t choose(const char* name, std::size_t current, std::initializer_list<const char*> choices,
                             const char* text) = 0;
  ~FieldVisitor() = default;
};

}  // namespace twin
