// The functions by which the other files of this folder add to the Python module.
#pragma once

#include <nanobind/nanobind.h>

namespace twin {

void bind_parameters(nanobind::module_& module);
void bind_replay(nanobind::module_& module);

}  // namespace twin
