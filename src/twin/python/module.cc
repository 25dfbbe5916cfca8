// The Python module `iopatterns._twin`. Its SCSI target is only for tests.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <string>
#include <vector>

#include "python/bindings.h"
#include "scsi/scsi_target.h"

namespace nb = nanobind;

namespace twin {
namespace {

nb::tuple execute(ScsiTarget& target, const nb::bytes& cdb, const nb::bytes& out, std::size_t in_bytes) {
  std::vector<std::uint8_t> in(in_bytes);
  const ScsiResult result =
      target.execute(static_cast<const std::uint8_t*>(cdb.data()), cdb.size(),
                     static_cast<const std::uint8_t*>(out.data()), out.size(), in.data(), in.size());
  return nb::make_tuple(result.status, nb::bytes(result.sense.data(), result.sense_bytes),
                        nb::bytes(in.data(), result.transferred_bytes));
}

}  // namespace
}  // namespace twin

NB_MODULE(_twin, module) {
  module.doc() = "Simulated drives: parameters, trace replay, SCSI.";
  module.attr("SOURCES_SHA256") = TWIN_SOURCES_SHA256;
  twin::bind_parameters(module);
  twin::bind_replay(module);
  nb::class_<twin::ScsiTarget>(module, "ScsiTarget",
                               "The SCSI target of a drive, which keeps its settings in a folder.")
      .def(nb::init<std::string_view, std::string>(), nb::arg("text"), nb::arg("folder"))
      .def("execute", &twin::execute, nb::arg("cdb"), nb::arg("out"), nb::arg("in_bytes"),
           "Execute a command; return (status, sense, data).");
}
