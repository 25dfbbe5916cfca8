// Reading the text form of a drive's parameters.
#include "drive/parameters.h"

#include <algorithm>
#include <set>

namespace twin {
namespace {

[[noreturn]] void fail(const std::string& key, const std::string& why) {
  throw std::invalid_argument(key + ": " + why);
}

// Removes a value and returns it.
std::string take(Values& values, const std::string& key) {
  const auto value = values.extract(key);
  if (value.empty()) fail(key, "is missing");
  return value.mapped();
}

// Sets the fields of a group from its values, and removes these values. Each field must have a value.
class Setter final : public FieldVisitor {
 public:
  Setter(std::string group, Values& values) : group_(std::move(group)), values_(values) {}

  void number(const char* name, std::int64_t& value, Unit, std::int64_t minimum, std::int64_t maximum,
              const char*) override {
    set_in_range(name, value, minimum, maximum);
  }

  void ratio(const char* name, double& value, double minimum, double maximum, const char*) override {
    set_in_range(name, value, minimum, maximum);
  }

  void toggle(const char* name, bool& value, const char* text) override {
    value = choose(name, 0, {"0", "1"}, text) == 1;
  }

  void optional_number(const char* name, std::int64_t& value, Unit, std::int64_t minimum, std::int64_t maximum,
                       const char*) override {
    if (values_.contains(key(name))) set_in_range(name, value, minimum, maximum);
  }

  void optional_ratio(const char* name, double& value, double minimum, double maximum, const char*) override {
    if (values_.contains(key(name))) set_in_range(name, value, minimum, maximum);
  }

 private:
  std::size_t choose(const char* name, std::size_t, std::initializer_list<const char*> choices, const char*) override {
    const std::string text = take(values_, key(name));
    const auto found = std::find(choices.begin(), choices.end(), text);
    if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
    std::string valid;
    for (const char* each : choices) valid += std::string(valid.empty() ? "" : ", ") + each;
    fail(key(name), "'" + text + "' is not valid; valid are " + valid);
  }

  template <class Number>
  void set_in_range(const char* name, Number& value, Number minimum, Number maximum) {
    const std::string text = take(values_, key(name));
    value = parse_number<Number>(key(name), text);
    if (!(value >= minimum && value <= maximum)) {
      fail(key(name), text + " is not between " + std::to_string(minimum) + " and " + std::to_string(maximum));
    }
  }

  [[nodiscard]] std::string key(const char* name) const { return group_ + "." + name; }

  std::string group_;
  Values& values_;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

}  // namespace

Values read_values(std::string_view text) {
  Values values;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) fail(std::string(line), "has no value");
    values.emplace(line.substr(0, space), line.substr(space + 1));
  }
  return values;
}

Parameters parse_parameters(std::string_view text) {
  Values values = read_values(text);
  Parameters parameters;
  const std::string kind = take(values, "kind");
  if (kind != "ssd" && kind != "hard_disk") fail("kind", "'" + kind + "' is not valid; valid are ssd, hard_disk");
  parameters.kind = kind == "ssd" ? DriveKind::kSsd : DriveKind::kHardDisk;
  std::set<std::string, std::less<>> groups;
  parameters.groups([&](const char* name, auto& group, bool needed) {
    groups.insert(name);
    if (!needed) return;
    Setter setter(name, values);
    group.visit(setter);
  });
  // Native command queuing of SATA supports only reads and writes. Linux sends a flush or a trim to such a drive when
  // it holds no other command, and no further command meanwhile (ata_std_qc_defer in drivers/ata/libata-core.c).
  const auto transport = values.find("identity.transport");
  parameters.link.queues_only_data = transport != values.end() && transport->second == "sata";
  for (const auto& [key, value] : values) {
    if (groups.contains(key.substr(0, key.find('.')))) fail(key, "is not a parameter of this kind of drive");
  }
  return parameters;
}

}  // namespace twin
