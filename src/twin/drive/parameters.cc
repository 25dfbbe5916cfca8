// Reads the text form of a drive's parameters.
#include "drive/parameters.h"

#include <charconv>
#include <map>
#include <stdexcept>
#include <string>

namespace twin {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;

[[noreturn]] void fail(const std::string& key, const std::string& why) {
  throw std::invalid_argument(key + ": " + why);
}

// Sets the fields of one group from the values, each of which must be there.
class Setter final : public FieldVisitor {
 public:
  Setter(std::string group, Values& values) : group_(std::move(group)), values_(values) {}

  void number(const char* name, std::int64_t& value, Unit, std::int64_t minimum, std::int64_t maximum,
              const char*) override {
    const std::string text = take(name);
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end) fail(key(name), "'" + text + "' is no whole number");
    if (value < minimum || value > maximum) {
      fail(key(name), text + " is not between " + std::to_string(minimum) + " and " + std::to_string(maximum));
    }
  }

  void ratio(const char* name, double& value, double minimum, double maximum, const char*) override {
    const std::string text = take(name);
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end) fail(key(name), "'" + text + "' is no number");
    if (!(value >= minimum && value <= maximum)) {
      fail(key(name), text + " is not between " + std::to_string(minimum) + " and " + std::to_string(maximum));
    }
  }

  void toggle(const char* name, bool& value, const char*) override {
    const std::string text = take(name);
    if (text != "0" && text != "1") fail(key(name), "'" + text + "' is neither 0 nor 1");
    value = text == "1";
  }

 private:
  std::size_t choose(const char* name, std::size_t, std::initializer_list<const char*> choices, const char*) override {
    const std::string text = take(name);
    std::string valid;
    std::size_t index = 0;
    for (const char* each : choices) {
      if (text == each) return index;
      valid += std::string(index == 0 ? "" : ", ") + each;
      ++index;
    }
    fail(key(name), "'" + text + "' is none of " + valid);
  }

  [[nodiscard]] std::string key(const char* name) const { return group_ + "." + name; }

  std::string take(const char* name) {
    const auto found = values_.find(key(name));
    if (found == values_.end()) fail(key(name), "is missing");
    std::string value = std::move(found->second);
    values_.erase(found);
    return value;
  }

  std::string group_;
  Values& values_;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

Values read_lines(std::string_view text) {
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

}  // namespace

Parameters parse_parameters(std::string_view text) {
  Values values = read_lines(text);
  Parameters parameters;
  const auto kind = values.find("kind");
  if (kind == values.end()) fail("kind", "is missing");
  if (kind->second != "ssd" && kind->second != "hard_disk")
    fail("kind", "'" + kind->second + "' is none of ssd, hard_disk");
  parameters.kind = kind->second == "ssd" ? DriveKind::kSsd : DriveKind::kHardDisk;
  values.erase(kind);
  std::map<std::string, bool, std::less<>> known;
  parameters.groups([&](const char* name, auto& group, bool) {
    known[name] = true;
    // asked again for each group: which mapping groups are needed is known once `ftl` has been read
    bool needed = false;
    parameters.groups([&](const char* other, auto&, bool is_needed) {
      if (std::string_view(name) == other) needed = is_needed;
    });
    if (!needed) return;
    Setter setter(name, values);
    group.visit(setter);
  });
  // Native command queuing of SATA has reads and writes alone. Linux gives such a drive a flush or a trim once it holds
  // no other command, and nothing meanwhile (ata_std_qc_defer in drivers/ata/libata-core.c).
  const auto transport = values.find("identity.transport");
  parameters.link.queues_data_alone = transport != values.end() && transport->second == "sata";
  for (const auto& [key, value] : values) {
    if (known.contains(key.substr(0, key.find('.')))) fail(key, "is no parameter of this kind of drive");
  }
  return parameters;
}

}  // namespace twin
