// Opening, reading, writing and closing the drive. Calls on other files go to the original functions.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include <string>

#include "preload/drive_file.h"
#include "preload/foreign_files.h"
#include "preload/process.h"
#include "preload/real.h"
#include "preload/sysfs.h"
#include "preload/timers.h"

// glibc's checked variants, for programs built with _FORTIFY_SOURCE.
extern "C" {
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int folder, const char* path, int flags);
int __openat64_2(int folder, const char* path, int flags);
ssize_t __read_chk(int descriptor, void* buffer, size_t size, size_t room);
ssize_t __pread_chk(int descriptor, void* buffer, size_t size, off_t offset, size_t room);
ssize_t __pread64_chk(int descriptor, void* buffer, size_t size, off64_t offset, size_t room);
}

using twin::Operation;

namespace {

// Declares `mode`: the third argument of open() if the flags require this argument, else 0.
#define TWIN_MODE(flags, last)                          \
  mode_t mode = 0;                                      \
  if (((flags) & (O_CREAT | O_TMPFILE)) != 0) {         \
    va_list arguments;                                  \
    va_start(arguments, last);                          \
    mode = static_cast<mode_t>(va_arg(arguments, int)); \
    va_end(arguments);                                  \
  }

ssize_t read_at(int descriptor, void* buffer, size_t size, off_t offset) {
  const iovec part{buffer, size};
  return twin::transfer(descriptor, Operation::kRead, &part, 1, offset);
}

ssize_t write_at(int descriptor, const void* buffer, size_t size, off_t offset) {
  const iovec part{const_cast<void*>(buffer), size};
  return twin::transfer(descriptor, Operation::kWrite, &part, 1, offset);
}

// preadv2() or pwritev2() on the drive. An offset of -1 is the descriptor's position. Flags about polling are ignored.
ssize_t transfer_v2(int descriptor, Operation operation, const iovec* parts, int count, off_t offset, int flags) {
  const ssize_t size = offset == -1 ? twin::transfer_here(descriptor, operation, parts, count)
                                    : twin::transfer(descriptor, operation, parts, count, offset);
  if (size > 0 && operation == Operation::kWrite && (flags & (RWF_DSYNC | RWF_SYNC)) != 0) twin::flush_drive();
  return size;
}

// Opens the drive if `path` is its path. Opens any other file with `call`, unless fio must not open it.
template <class Call>
int open_file(int folder, const char* path, int flags, Call call) {
  if (twin::is_drive_path(path)) return twin::open_drive(flags);
  twin::check_open(folder, path, flags);
  if ((flags & O_DIRECT) != 0) twin::measures_other_file();
  const std::string file = twin::served_path(path);
  return twin::opened(call(path == nullptr ? path : file.c_str()));
}

}  // namespace

TWIN_EXPORT int open(const char* path, int flags, ...) {
  TWIN_MODE(flags, flags)
  return open_file(AT_FDCWD, path, flags, [=](const char* file) { return TWIN_REAL(open)(file, flags, mode); });
}

TWIN_EXPORT int open64(const char*, int, ...) TWIN_ALIAS_OF(open);

TWIN_EXPORT int openat(int folder, const char* path, int flags, ...) {
  TWIN_MODE(flags, flags)
  return open_file(folder, path, flags, [=](const char* file) { return TWIN_REAL(openat)(folder, file, flags, mode); });
}

TWIN_EXPORT int openat64(int, const char*, int, ...) TWIN_ALIAS_OF(openat);

TWIN_EXPORT int __open_2(const char* path, int flags) {
  return open_file(AT_FDCWD, path, flags, [=](const char* file) { return TWIN_REAL(__open_2)(file, flags); });
}

TWIN_EXPORT int __open64_2(const char*, int) TWIN_ALIAS_OF(__open_2);

TWIN_EXPORT int __openat_2(int folder, const char* path, int flags) {
  return open_file(folder, path, flags, [=](const char* file) { return TWIN_REAL(__openat_2)(folder, file, flags); });
}

TWIN_EXPORT int __openat64_2(int, const char*, int) TWIN_ALIAS_OF(__openat_2);

TWIN_EXPORT int creat(const char* path, mode_t mode) {
  return open_file(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC,
                   [=](const char* file) { return TWIN_REAL(creat)(file, mode); });
}

TWIN_EXPORT int creat64(const char*, mode_t) TWIN_ALIAS_OF(creat);

TWIN_EXPORT int close(int descriptor) {
  if (twin::is_drive(descriptor)) twin::forget_descriptor(descriptor);
  twin::forget_foreign(descriptor);
  twin::forget_timer(descriptor);
  return TWIN_REAL(close)(descriptor);
}

TWIN_EXPORT ssize_t read(int descriptor, void* buffer, size_t size) {
  if (!twin::is_drive(descriptor)) {
    if (twin::wait_until_readable(descriptor) != 0) return -1;
    return TWIN_REAL(read)(descriptor, buffer, size);
  }
  const iovec part{buffer, size};
  return twin::transfer_here(descriptor, Operation::kRead, &part, 1);
}

TWIN_EXPORT ssize_t __read_chk(int descriptor, void* buffer, size_t size, size_t room) {
  if (twin::is_drive(descriptor)) return read(descriptor, buffer, size);
  if (twin::wait_until_readable(descriptor) != 0) return -1;
  return TWIN_REAL(__read_chk)(descriptor, buffer, size, room);
}

TWIN_EXPORT ssize_t readv(int descriptor, const iovec* parts, int count) {
  if (twin::is_drive(descriptor)) return twin::transfer_here(descriptor, Operation::kRead, parts, count);
  if (twin::wait_until_readable(descriptor) != 0) return -1;
  return TWIN_REAL(readv)(twin::checked(descriptor, "reading"), parts, count);
}

TWIN_EXPORT ssize_t pread(int descriptor, void* buffer, size_t size, off_t offset) {
  if (twin::is_drive(descriptor)) return read_at(descriptor, buffer, size, offset);
  return TWIN_REAL(pread)(twin::checked(descriptor, "reading"), buffer, size, offset);
}

TWIN_EXPORT ssize_t pread64(int, void*, size_t, off64_t) TWIN_ALIAS_OF(pread);

TWIN_EXPORT ssize_t __pread_chk(int descriptor, void* buffer, size_t size, off_t offset, size_t room) {
  if (twin::is_drive(descriptor)) return read_at(descriptor, buffer, size, offset);
  return TWIN_REAL(__pread_chk)(twin::checked(descriptor, "reading"), buffer, size, offset, room);
}

TWIN_EXPORT ssize_t __pread64_chk(int, void*, size_t, off64_t, size_t) TWIN_ALIAS_OF(__pread_chk);

TWIN_EXPORT ssize_t preadv(int descriptor, const iovec* parts, int count, off_t offset) {
  if (twin::is_drive(descriptor)) return twin::transfer(descriptor, Operation::kRead, parts, count, offset);
  return TWIN_REAL(preadv)(twin::checked(descriptor, "reading"), parts, count, offset);
}

TWIN_EXPORT ssize_t preadv64(int, const iovec*, int, off64_t) TWIN_ALIAS_OF(preadv);

TWIN_EXPORT ssize_t preadv2(int descriptor, const iovec* parts, int count, off_t offset, int flags) {
  if (twin::is_drive(descriptor)) return transfer_v2(descriptor, Operation::kRead, parts, count, offset, flags);
  return TWIN_REAL(preadv2)(twin::checked(descriptor, "reading"), parts, count, offset, flags);
}

TWIN_EXPORT ssize_t preadv64v2(int, const iovec*, int, off64_t, int) TWIN_ALIAS_OF(preadv2);

TWIN_EXPORT ssize_t write(int descriptor, const void* buffer, size_t size) {
  if (twin::is_drive(descriptor)) {
    const iovec part{const_cast<void*>(buffer), size};
    return twin::transfer_here(descriptor, Operation::kWrite, &part, 1);
  }
  const ssize_t written = TWIN_REAL(write)(descriptor, buffer, size);
  if (twin::self != nullptr && !twin::timeline().alone()) twin::wake_descriptor_waiters();
  return written;
}

TWIN_EXPORT ssize_t writev(int descriptor, const iovec* parts, int count) {
  return twin::is_drive(descriptor) ? twin::transfer_here(descriptor, Operation::kWrite, parts, count)
                                    : TWIN_REAL(writev)(descriptor, parts, count);
}

TWIN_EXPORT ssize_t pwrite(int descriptor, const void* buffer, size_t size, off_t offset) {
  return twin::is_drive(descriptor) ? write_at(descriptor, buffer, size, offset)
                                    : TWIN_REAL(pwrite)(descriptor, buffer, size, offset);
}

TWIN_EXPORT ssize_t pwrite64(int, const void*, size_t, off64_t) TWIN_ALIAS_OF(pwrite);

TWIN_EXPORT ssize_t pwritev(int descriptor, const iovec* parts, int count, off_t offset) {
  return twin::is_drive(descriptor) ? twin::transfer(descriptor, Operation::kWrite, parts, count, offset)
                                    : TWIN_REAL(pwritev)(descriptor, parts, count, offset);
}

TWIN_EXPORT ssize_t pwritev64(int, const iovec*, int, off64_t) TWIN_ALIAS_OF(pwritev);

TWIN_EXPORT ssize_t pwritev2(int descriptor, const iovec* parts, int count, off_t offset, int flags) {
  return twin::is_drive(descriptor) ? transfer_v2(descriptor, Operation::kWrite, parts, count, offset, flags)
                                    : TWIN_REAL(pwritev2)(descriptor, parts, count, offset, flags);
}

TWIN_EXPORT ssize_t pwritev64v2(int, const iovec*, int, off64_t, int) TWIN_ALIAS_OF(pwritev2);

TWIN_EXPORT off_t lseek(int descriptor, off_t offset, int origin) noexcept {
  if (twin::is_drive(descriptor)) return twin::seek(descriptor, offset, origin);
  return TWIN_REAL(lseek)(twin::checked(descriptor, "seeking"), offset, origin);
}

TWIN_EXPORT off64_t lseek64(int, off64_t, int) noexcept TWIN_ALIAS_OF(lseek);

TWIN_EXPORT int fsync(int descriptor) {
  if (twin::is_drive(descriptor)) return twin::flush_drive();
  twin::measures_other_file();
  return TWIN_REAL(fsync)(descriptor);
}

TWIN_EXPORT int fdatasync(int descriptor) {
  if (twin::is_drive(descriptor)) return twin::flush_drive();
  twin::measures_other_file();
  return TWIN_REAL(fdatasync)(descriptor);
}

TWIN_EXPORT int syncfs(int descriptor) noexcept {
  return twin::is_drive(descriptor) ? twin::flush_drive() : TWIN_REAL(syncfs)(descriptor);
}

// These calls do nothing on the drive, because there is no page cache.
TWIN_EXPORT int sync_file_range(int descriptor, off64_t offset, off64_t size, unsigned int flags) {
  return twin::is_drive(descriptor) ? 0 : TWIN_REAL(sync_file_range)(descriptor, offset, size, flags);
}

TWIN_EXPORT int posix_fadvise(int descriptor, off_t offset, off_t size, int advice) noexcept {
  if (twin::is_drive(descriptor)) return 0;
  return TWIN_REAL(posix_fadvise)(twin::checked(descriptor, "I/O"), offset, size, advice);
}

TWIN_EXPORT int posix_fadvise64(int, off64_t, off64_t, int) noexcept TWIN_ALIAS_OF(posix_fadvise);

TWIN_EXPORT ssize_t readahead(int descriptor, off64_t offset, size_t size) noexcept {
  if (twin::is_drive(descriptor)) return 0;
  return TWIN_REAL(readahead)(twin::checked(descriptor, "I/O"), offset, size);
}

TWIN_EXPORT int fallocate(int descriptor, int mode, off_t offset, off_t size) {
  if (!twin::is_drive(descriptor)) {
    return TWIN_REAL(fallocate)(twin::checked(descriptor, "fallocate"), mode, offset, size);
  }
  if ((mode & FALLOC_FL_PUNCH_HOLE) == 0 || offset < 0 || size <= 0) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return twin::discard(static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(size));
}

TWIN_EXPORT int fallocate64(int, int, off64_t, off64_t) TWIN_ALIAS_OF(fallocate);

// The size of a block device cannot be changed.
TWIN_EXPORT int ftruncate(int descriptor, off_t size) noexcept {
  if (!twin::is_drive(descriptor)) return TWIN_REAL(ftruncate)(twin::checked(descriptor, "ftruncate"), size);
  errno = EINVAL;
  return -1;
}

TWIN_EXPORT int ftruncate64(int, off64_t) noexcept TWIN_ALIAS_OF(ftruncate);

// ---- calls that are refused on the drive

TWIN_EXPORT void* mmap(void* address, size_t size, int protection, int flags, int descriptor, off_t offset) noexcept {
  if ((flags & MAP_ANONYMOUS) == 0) {
    if (twin::is_drive(descriptor)) {
      twin::refuse("mmap of the drive", "its accesses cannot be seen", "Use ioengine=psync or ioengine=libaio");
    }
    twin::checked(descriptor, "mmap");
  }
  return TWIN_REAL(mmap)(address, size, protection, flags, descriptor, offset);
}

TWIN_EXPORT void* mmap64(void*, size_t, int, int, int, off64_t) noexcept TWIN_ALIAS_OF(mmap);

TWIN_EXPORT ssize_t splice(int in, off64_t* in_offset, int out, off64_t* out_offset, size_t size, unsigned int flags) {
  if (twin::is_drive(in) || twin::is_drive(out)) {
    twin::refuse("splice", "the data do not pass through the program", "Use ioengine=psync or ioengine=libaio");
  }
  twin::checked(in, "splice");
  twin::checked(out, "splice");
  return TWIN_REAL(splice)(in, in_offset, out, out_offset, size, flags);
}

TWIN_EXPORT ssize_t sendfile(int out, int in, off_t* offset, size_t size) noexcept {
  if (twin::is_drive(in) || twin::is_drive(out)) {
    twin::refuse("sendfile", "the data do not pass through the program", "Use read() and write()");
  }
  return TWIN_REAL(sendfile)(out, in, offset, size);
}

TWIN_EXPORT ssize_t sendfile64(int, int, off64_t*, size_t) noexcept TWIN_ALIAS_OF(sendfile);

TWIN_EXPORT ssize_t copy_file_range(int in, off64_t* in_offset, int out, off64_t* out_offset, size_t size,
                                    unsigned int flags) {
  if (twin::is_drive(in) || twin::is_drive(out)) {
    twin::refuse("copy_file_range", "the data do not pass through the program", "Use read() and write()");
  }
  return TWIN_REAL(copy_file_range)(in, in_offset, out, out_offset, size, flags);
}
