// The Python module `iopatterns._twin`.
#include <nanobind/nanobind.h>

#include "python/bindings.h"

NB_MODULE(_twin, module) {
  module.doc() = "Simulated drives: parameters, trace replay, SCSI.";
  twin::bind_parameters(module);
  twin::bind_replay(module);
  twin::bind_scsi(module);
}
