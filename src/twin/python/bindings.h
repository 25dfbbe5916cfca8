// What each file of this folder adds to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace twin {

void bind_parameters(nanobind::module_& module);
void bind_replay(nanobind::module_& module);
void bind_scsi(nanobind::module_& module);

}  // namespace twin
