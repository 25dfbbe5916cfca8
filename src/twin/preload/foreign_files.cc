// Keeps fio from doing I/O on files other than the drive, and from creating, changing or deleting them. A call that is
// not allowed ends fio with status 2 and one line before it has an effect.
#include "preload/foreign_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "preload/drive_file.h"
#include "preload/process.h"
#include "preload/real.h"

namespace twin {
namespace {

constexpr int kDescriptors = 65536;

// Indexed by descriptor: whether fio has opened it with open() for a file other than the drive.
bool foreign[kDescriptors];

bool watched() { return self != nullptr && !forked() && is_fio(); }

[[noreturn]] void refuse_file(const std::string& what, const char* path) {
  refuse((what + " " + printable(path)).c_str(), "only the drive is simulated",
         "Give {drive} as the file; for a replay add --replay_redirect={drive}");
}

// Whether fio opens a file about verification: the state at the end of a job, or blocks with wrong content, in files
// named after the drive. fio creates these files and only writes to them.
bool is_about_verifying(const char* path, int flags) {
  if ((flags & (O_ACCMODE | O_CREAT | O_TRUNC | O_DIRECT)) != (O_WRONLY | O_CREAT | O_TRUNC)) return false;
  std::string_view name = path;
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0
  if (name.ends_with("-verify.state")) return true;
  std::string_view drive = drive_path();
  drive.remove_prefix(drive.rfind('/') + 1);
  return name.starts_with(drive) && (name.ends_with(".received") || name.ends_with(".expected"));
}

// Whether fio may open a file for reading: a regular file, a folder, or a device that stores no data.
bool is_readable_kind(const struct stat& found) {
  constexpr unsigned kMemoryDevices = 1;
  constexpr unsigned kNull = 3;
  constexpr unsigned kUrandom = 9;
  switch (found.st_mode & S_IFMT) {
    case S_IFREG:
    case S_IFDIR:
      return true;
    case S_IFCHR:
      return major(found.st_rdev) == kMemoryDevices && minor(found.st_rdev) >= kNull &&
             minor(found.st_rdev) <= kUrandom;
    default:  // a block device, or a pipe, which open() may wait for for ever
      return false;
  }
}

}  // namespace

void check_open(int folder, const char* path, int flags) {
  if (!watched() || path == nullptr) return;
  const char* const counters = getenv("TWIN_COUNTERS");  // a file that this library writes
  if (counters != nullptr && strcmp(path, counters) == 0) return;
  const bool temporary = (flags & O_TMPFILE) == O_TMPFILE;
  if ((flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0 || temporary) {
    if (!is_about_verifying(path, flags)) refuse_file("I/O on", path);
    return;
  }
  if ((flags & O_DIRECT) != 0) refuse_file("I/O on", path);
  struct stat there;
  const int error = errno;
  if (TWIN_REAL(fstatat)(folder, path, &there, 0) == 0 && !is_readable_kind(there)) refuse_file("I/O on", path);
  errno = error;
}

int opened(int descriptor) {
  if (descriptor >= 0 && descriptor < kDescriptors && watched()) foreign[descriptor] = true;
  return descriptor;
}

void forget_foreign(int descriptor) {
  if (descriptor >= 0 && descriptor < kDescriptors) foreign[descriptor] = false;
}

void copy_foreign(int from, int to) {
  if (to < 0 || to >= kDescriptors) return;
  foreign[to] = from >= 0 && from < kDescriptors && foreign[from];
}

int checked(int descriptor, const char* what) {
  if (descriptor < 0 || descriptor >= kDescriptors || !foreign[descriptor] || !watched()) return descriptor;
  char path[4096];
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  path[size > 0 ? size : 0] = '\0';
  refuse_file(std::string(what) + " on", path);
}

void check_change(const char* path, const char* what) {
  if (!watched() || path == nullptr) return;
  // with --status-interval, fio deletes the file with which a user requests its status
  if (strcmp(what, "unlink") == 0 && std::string_view(path).ends_with("/fio-dump-status")) return;
  refuse_file(what, path);
}

}  // namespace twin

using twin::check_change;

TWIN_EXPORT int unlink(const char* path) noexcept {
  check_change(path, "unlink");
  return TWIN_REAL(unlink)(path);
}

TWIN_EXPORT int rmdir(const char* path) noexcept {
  check_change(path, "rmdir");
  return TWIN_REAL(rmdir)(path);
}

TWIN_EXPORT int rename(const char* from, const char* to) noexcept {
  check_change(from, "rename");
  return TWIN_REAL(rename)(from, to);
}

TWIN_EXPORT int truncate(const char* path, off_t size) noexcept {
  check_change(path, "truncate");
  return TWIN_REAL(truncate)(path, size);
}

TWIN_EXPORT int truncate64(const char*, off64_t) noexcept TWIN_ALIAS_OF(truncate);

// fio calls mkdir() for each folder in the path of a file, the drive included. For existing folders this has no effect.
TWIN_EXPORT int mkdir(const char* path, mode_t mode) noexcept {
  struct stat there;
  if (TWIN_REAL(stat)(path, &there) != 0) check_change(path, "mkdir");
  return TWIN_REAL(mkdir)(path, mode);
}
