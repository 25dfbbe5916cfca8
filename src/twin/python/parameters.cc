// The declared parameters, and the check of a drive's parameters, for Python.
#include "drive/parameters.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "core/counters.h"
#include "drive/drive.h"
#include "python/bindings.h"
#include "scsi/caching_page.h"
#include "scsi/scsi_target.h"

namespace nb = nanobind;

namespace twin {
namespace {

constexpr const char* kUnitNames[] = {"count", "ns", "bytes", "bytes/s"};  // by Unit

// Appends a dictionary for each visited field to a list.
class Describer final : public FieldVisitor {
 public:
  Describer(const char* group, nb::list& fields) : group_(group), fields_(fields) {}

  void number(const char* name, std::int64_t&, Unit unit, std::int64_t minimum, std::int64_t maximum,
              const char* text) override {
    add_number(name, unit, minimum, maximum, text);
  }

  void ratio(const char* name, double&, double minimum, double maximum, const char* text) override {
    add_ratio(name, minimum, maximum, text);
  }

  void toggle(const char* name, bool&, const char* text) override { add(name, "toggle", text); }

  void optional_number(const char* name, std::int64_t& value, Unit unit, std::int64_t minimum, std::int64_t maximum,
                       const char* text) override {
    add_number(name, unit, minimum, maximum, text)["default"] = value;
  }

  void optional_ratio(const char* name, double& value, double minimum, double maximum, const char* text) override {
    add_ratio(name, minimum, maximum, text)["default"] = value;
  }

 private:
  std::size_t choose(const char* name, std::size_t current, std::initializer_list<const char*> choices,
                     const char* text) override {
    nb::dict field = add(name, "choice", text);
    nb::list names;
    for (const char* each : choices) names.append(each);
    field["choices"] = names;
    return current;
  }

  nb::dict add_number(const char* name, Unit unit, std::int64_t minimum, std::int64_t maximum, const char* text) {
    nb::dict field = add(name, "number", text);
    field["unit"] = kUnitNames[static_cast<std::size_t>(unit)];
    field["minimum"] = minimum;
    field["maximum"] = maximum;
    return field;
  }

  nb::dict add_ratio(const char* name, double minimum, double maximum, const char* text) {
    nb::dict field = add(name, "ratio", text);
    field["minimum"] = minimum;
    field["maximum"] = maximum;
    return field;
  }

  nb::dict add(const char* name, const char* kind, const char* text) {
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

// Returns the names of the groups that a drive of this kind, with this mapping, has.
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

// Throws std::invalid_argument (in Python ValueError), naming the parameter, unless the text describes a drive and its
// SCSI target.
void check(const std::string& text, const std::string& folder) {
  const Drive drive(parse_parameters(text));
  const ScsiTarget target(text, folder);
}

}  // namespace

void bind_parameters(nb::module_& module) {
  module.def("parameters", &parameters,
             "Return all parameters: group, name, kind, text, and unit, range, choices or default.");
  module.def("groups", &groups, nb::arg("kind"), nb::arg("mapping"),
             "Return the groups of parameters that such a drive has.");
  module.def("check", &check, nb::arg("text"), nb::arg("folder"),
             "Raise ValueError, naming the parameter, unless the text describes a drive.");
  module.def(
      "counter_names",
      [] {
        nb::list names;
        visit_counters(Counters{}, [&](const char* name, std::uint64_t) { names.append(name); });
        return names;
      },
      "Return the names of all counters, in the order in which files list them.");
  module.def(
      "caching_fields",
      [] {
        nb::dict widths;
        for (const CachingField& field : kCachingFields) {
          widths[nb::str(field.name.data(), field.name.size())] = field.width;
        }
        return widths;
      },
      "Return the fields of the caching mode page with their widths in bits.");
}

}  // namespace twin
