// Parses the records of a plan.
#include "linux/plan.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string_view>

namespace twin {

Plan Plan::read(std::istream& stream) {
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  Plan plan;
  const std::map<std::string_view, std::string*> texts = {
      {"kernel", &plan.kernel},
      {"init", &plan.init},
      {"library", &plan.library},
      {"model", &plan.model},
      {"trace", &plan.trace},
      {"counters", &plan.counters},
      {"settings", &plan.settings},
      {"image", &plan.image},
      {"folder", &plan.folder},
      {"summary", &plan.summary},
      {"program_library", &plan.program_library},
  };
  const std::map<std::string_view, std::int64_t*> numbers = {
      {"interval_ns", &plan.interval_ns},
      {"interval_bytes", &plan.interval_bytes},
      {"seed", &plan.seed},
      {"memory_bytes", &plan.memory_bytes},
      {"queue_depth", &plan.queue_depth},
      {"user", &plan.user},
      {"wall_limit_s", &plan.wall_limit_s},
      {"time_of_day_s", &plan.time_of_day_s},
      {"group", &plan.group},
      {"call_ns", &plan.call_ns},
      {"fault_ns", &plan.fault_ns},
      {"real_time", &plan.real_time},
      {"trace_all", &plan.trace_all},
  };
  constexpr std::string_view kForGuest = "guest.";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\0', begin);
    if (end == std::string::npos) throw std::runtime_error("the plan ends within a record");
    const std::string_view record(text.data() + begin, end - begin);
    begin = end + 1;
    if (record.starts_with(kForGuest)) {
      plan.guest.append(record.substr(kForGuest.size()));
      plan.guest.push_back('\0');
      continue;
    }
    const std::string_view key = record.substr(0, record.find('='));
    const std::string value(record.substr(std::min(key.size() + 1, record.size())));
    if (const auto to = texts.find(key); to != texts.end()) {
      *to->second = value;
    } else if (const auto number = numbers.find(key); number != numbers.end()) {
      *number->second = std::strtoll(value.c_str(), nullptr, 10);
    } else {
      throw std::runtime_error("the plan has the unknown key " + std::string(key));
    }
  }
  return plan;
}

}  // namespace twin
