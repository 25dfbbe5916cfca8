// Copies of descriptors beyond dup() and dup2(): a copy of the drive's descriptor is the drive's, too.
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#include "preload/drive_file.h"
#include "preload/process.h"
#include "preload/real.h"

namespace {

// fcntl(2) by either of its names. The kernel takes a third argument as wide as a pointer, or none.
template <class Fcntl>
int control(Fcntl* real, int descriptor, int command, void* argument) {
  const int result = real(descriptor, command, argument);
  const bool copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  if (copies && result >= 0 && twin::is_drive(descriptor)) twin::copy_descriptor(descriptor, result);
  return result;
}

}  // namespace

TWIN_EXPORT int dup3(int descriptor, int copy, int flags) noexcept {
  const int result = TWIN_REAL(dup3)(descriptor, copy, flags);
  if (result < 0) return result;
  if (twin::is_drive(copy)) twin::forget_descriptor(copy);
  if (twin::self != nullptr) twin::forget_timer(copy);
  if (twin::is_drive(descriptor)) twin::copy_descriptor(descriptor, copy);
  return result;
}

TWIN_EXPORT int fcntl(int descriptor, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  return control(TWIN_REAL(fcntl), descriptor, command, argument);
}

TWIN_EXPORT int fcntl64(int descriptor, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  return control(TWIN_REAL(fcntl64), descriptor, command, argument);
}
