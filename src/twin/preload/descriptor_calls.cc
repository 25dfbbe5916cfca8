// Copies of descriptors: a copy of a descriptor of the drive is a descriptor of the drive, too.
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#include "preload/drive_file.h"
#include "preload/foreign_files.h"
#include "preload/process.h"
#include "preload/real.h"

namespace {

// Call after `copy` has become a copy of `descriptor`, which has closed what it was before. Returns `copy`.
int copied(int descriptor, int copy) {
  if (copy < 0 || copy == descriptor) return copy;
  if (twin::is_drive(copy)) twin::forget_descriptor(copy);
  if (twin::self != nullptr) twin::forget_timer(copy);
  twin::copy_foreign(descriptor, copy);
  if (twin::is_drive(descriptor)) twin::copy_descriptor(descriptor, copy);
  return copy;
}

// fcntl(2) by either of its names. Its third argument, where it has one, is at most as wide as a pointer.
template <class Fcntl>
int control(Fcntl* real, int descriptor, int command, void* argument) {
  const int result = real(descriptor, command, argument);
  return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied(descriptor, result) : result;
}

}  // namespace

TWIN_EXPORT int dup(int descriptor) noexcept { return copied(descriptor, TWIN_REAL(dup)(descriptor)); }

TWIN_EXPORT int dup2(int descriptor, int copy) noexcept {
  return copied(descriptor, TWIN_REAL(dup2)(descriptor, copy));
}

TWIN_EXPORT int dup3(int descriptor, int copy, int flags) noexcept {
  return copied(descriptor, TWIN_REAL(dup3)(descriptor, copy, flags));
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
