// How a layer declares its parameters: once, with name, unit, range and meaning. Everything that reads, checks,
// describes or fits a model file goes through these declarations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace twin {

enum class Unit : std::uint8_t { kCount, kNanoseconds, kBytes, kBytesPerSecond };

// Visits each parameter of a layer. `text` is one sentence on what the parameter is; `name` has no unit in it, since
// model files write the unit with the value (`read_time: 72 us`).
class FieldVisitor {
 public:
  virtual void number(const char* name, std::int64_t& value, Unit unit, std::int64_t minimum, std::int64_t maximum,
                      const char* text) = 0;
  virtual void ratio(const char* name, double& value, double minimum, double maximum, const char* text) = 0;
  virtual void toggle(const char* name, bool& value, const char* text) = 0;

  // `choices` are the names of the enumerators, which are numbered from 0 on, in their order.
  template <class Enum>
  void choice(const char* name, Enum& value, std::initializer_list<const char*> choices, const char* text) {
    static_assert(std::is_enum_v<Enum>);
    value = static_cast<Enum>(choose(name, static_cast<std::size_t>(value), choices, text));
  }

 protected:
  // Returns the index in `choices` of the chosen name; `now` is the index of the present value.
  virtual std::size_t choose(const char* name, std::size_t now, std::initializer_list<const char*> choices,
                             const char* text) = 0;
  ~FieldVisitor() = default;
};

}  // namespace twin
