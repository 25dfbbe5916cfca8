// How a layer declares its parameters: once, with name, unit, range and meaning. Everything that reads, checks,
// describes or fits a model file goes through these declarations.
#pragma once

#include <cstdint>
#include <initializer_list>

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
  // `value` is the index of the choice.
  virtual void choice(const char* name, int& value, std::initializer_list<const char*> choices, const char* text) = 0;

 protected:
  ~FieldVisitor() = default;
};

}  // namespace twin
