// What parameters there are, and whether a set of them makes a drive.
#include "drive/parameters.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <stdexcept>
#include <string>

#include "core/counters.h"
#include "drive/drive.h"
#include "python/bindings.h"
#include "scsi/caching_page.h"
#include "scsi/scsi_target.h"

namespace nb = nanobind;

namespace twin {
namespace {

const char* name_of(Unit unit) {
  switch (unit) {
    case Unit::kCount:
      return "count";
    case Unit::kNanoseconds:
      return "ns";
    case Unit::kBytes:
      return "bytes";
    case Unit::kBytesPerSecond:
      return "bytes/s";
  }
  return "";
}

// Makes a dictionary of each field it visits.
class Describer final : public FieldVisitor {
 public:
  Describer(const char* group, nb::list& fields) : group_(group), fields_(fields) {}

  void number(const char* name, std::int64_t&, Unit unit, std::int64_t minimum, std::int64_t maximum,
              const char* text) override {
    nb::dict field = make(name, "number", text);
    field["unit"] = name_of(unit);
    field["minimum"] = minimum;
    field["maximum"] = maximum;
  }

  void ratio(const char* name, double&, double minimum, double maximum, const char* text) override {
    nb::dict field = make(name, "ratio", text);
    field["minimum"] = minimum;
    field["maximum"] = maximum;
  }

  void toggle(const char* name, bool&, const char* text) override { make(name, "toggle", text); }

 private:
  std::size_t choose(const char* name, std::size_t now, std::initializer_list<const char*> choices,
                     const char* text) override {
    nb::dict field = make(name, "choice", text);
    nb::list names;
    for (const char* each : choices) names.append(each);
    field["choices"] = names;
    return now;
  }

  nb::dict make(const char* name, const char* kind, const char* text) {
    nb::dict field;
    field["group"] = group_;
    field["name"] = name;
    field["kind"] = kind;
    field["text"] = text;
    fields_.append(field);
    return field;
  }

  const char* group_;
  nb::list& fields_;
};

nb::list parameters() {
  nb::list fields;
  Parameters all;
  all.groups([&](const char* name, auto& group, bool) {
    Describer describer(name, fields);
    group.visit(describer);
  });
  return fields;
}

// The groups that a drive of this kind, with this mapping, has.
nb::list groups(const std::string& kind, const std::string& mapping) {
  Parameters drive;
  drive.kind = kind == "ssd" ? DriveKind::kSsd : DriveKind::kHardDisk;
  drive.ftl.mapping = mapping == "log_block" ? Mapping::kLogBlock : Mapping::kPage;
  nb::list names;
  drive.groups([&](const char* name, auto&, bool needed) {
    if (needed) names.append(name);
  });
  return names;
}

// Raises ValueError, naming the parameter, unless the text makes a drive that also speaks SCSI.
void check(const std::string& text, const std::string& folder) {
  const Drive drive(parse_parameters(text));
  const ScsiTarget target(text, folder);
}

}  // namespace

void bind_parameters(nb::module_& module) {
  module.def("parameters", &parameters, "Each parameter: group, name, kind, text, and unit, range or choices.");
  module.def("groups", &groups, nb::arg("kind"), nb::arg("mapping"), "The groups that such a drive has.");
  module.def("check", &check, nb::arg("text"), nb::arg("folder"), "Raise ValueError unless the text makes a drive.");
  module.def("counter_names", [] {
    nb::list names;
    visit_counters(Counters{}, [&](const char* name, std::uint64_t) { names.append(name); });
    return names;
  });
  module.def(
      "caching_fields",
      [] {
        nb::dict widths;
        for (const CachingField& field : kCachingFields) {
          widths[nb::str(field.name.data(), field.name.size())] = field.width;
        }
        return widths;
      },
      "The fields of the caching mode page, and their widths in bits.");
}

}  // namespace twin
