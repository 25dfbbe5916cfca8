// Copies and flags of descriptors: dup() and fcntl(). A copy of a descriptor of the drive is a descriptor of the drive,
// too.
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#include <cstdint>

#include "preload/drive_file.h"
#include "preload/foreign_files.h"
#include "preload/process.h"
#include "preload/real.h"
#include "preload/timers.h"

namespace {

// Records that `copy` is now a copy of `descriptor`, and no longer the descriptor of another file. Returns `copy`.
int copied(int descriptor, int copy) {
  if (copy < 0 || copy == descriptor) return copy;
  if (twin::is_drive(copy)) twin::forget_descriptor(copy);
  twin::forget_timer(copy);
  twin::copy_foreign(descriptor, copy);
  if (twin::is_drive(descriptor)) twin::copy_descriptor(descriptor, copy);
  twin::copy_timer(descriptor, copy);
  return copy;
}

}  // namespace

TWIN_EXPORT int dup(int descriptor) noexcept { return copied(descriptor, TWIN_REAL(dup)(descriptor)); }

TWIN_EXPORT int dup2(int descriptor, int copy) noexcept {
  return copied(descriptor, TWIN_REAL(dup2)(descriptor, copy));
}

TWIN_EXPORT int dup3(int descriptor, int copy, int flags) noexcept {
  return copied(descriptor, TWIN_REAL(dup3)(descriptor, copy, flags));
}

// Its third argument, if it has one, is at most as wide as a pointer.
TWIN_EXPORT int fcntl(int descriptor, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (twin::is_drive(descriptor)) {
    if (command == F_GETFL) return twin::flags_of(descriptor);
    if (command == F_SETFL) {
      twin::set_flags(descriptor, static_cast<int>(reinterpret_cast<std::intptr_t>(argument)));
      return 0;
    }
  }
  const int result = TWIN_REAL(fcntl)(descriptor, command, argument);
  return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied(descriptor, result) : result;
}

TWIN_EXPORT int fcntl64(int, int, ...) TWIN_ALIAS_OF(fcntl);
