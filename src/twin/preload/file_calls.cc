// Opening, reading, writing and closing the drive. Calls on other files go to the original functions.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "preload/drive_file.h"
#include "preload/foreign_files.h"
#include "preload/process.h"
#include "preload/real.h"

// glibc's checked variants, which programs built with _FORTIFY_SOURCE call.
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

// Reads the third argument of open(), where `flags` say that there is one, into `mode`.
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

// For preadv2() and pwritev2(), where an offset of -1 means the descriptor's position. Flags about polling are ignored.
ssize_t transfer_v2(int descriptor, Operation operation, const iovec* parts, int count, off_t offset, int flags) {
  const ssize_t size = offset == -1 ? twin::transfer_here(descriptor, operation, parts, count)
                                    : twin::transfer(descriptor, operation, parts, count, offset);
  if (size > 0 && operation == Operation::kWrite && (flags & (RWF_DSYNC | RWF_SYNC)) != 0)
    twin::flush_drive(descriptor);
  return size;
}

// Opens the drive if the path is the drive's; otherwise `call` opens the file, if the program may open it.
template <class Call>
int open_file(int folder, const char* path, int flags, Call call) {
  if (twin::is_drive_path(path)) return twin::open_drive(flags);
  twin::check_open(folder, path, flags);
  return twin::opened(call());
}

}  // namespace

TWIN_EXPORT int open(const char* path, int flags, ...) {
  TWIN_MODE(flags, flags)
  return open_file(AT_FDCWD, path, flags, [=] { return TWIN_REAL(open)(path, flags, mode); });
}

TWIN_EXPORT int open64(const char* path, int flags, ...) {
  TWIN_MODE(flags, flags)
  return open_file(AT_FDCWD, path, flags, [=] { return TWIN_REAL(open64)(path, flags, mode); });
}

TWIN_EXPORT int openat(int folder, const char* path, int flags, ...) {
  TWIN_MODE(flags, flags)
  return open_file(folder, path, flags, [=] { return TWIN_REAL(openat)(folder, path, flags, mode); });
}

TWIN_EXPORT int openat64(int folder, const char* path, int flags, ...) {
  TWIN_MODE(flags, flags)
  return open_file(folder, path, flags, [=] { return TWIN_REAL(openat64)(folder, path, flags, mode); });
}

TWIN_EXPORT int __open_2(const char* path, int flags) {
  return open_file(AT_FDCWD, path, flags, [=] { return TWIN_REAL(__open_2)(path, flags); });
}

TWIN_EXPORT int __open64_2(const char* path, int flags) {
  return open_file(AT_FDCWD, path, flags, [=] { return TWIN_REAL(__open64_2)(path, flags); });
}

TWIN_EXPORT int __openat_2(int folder, const char* path, int flags) {
  return open_file(folder, path, flags, [=] { return TWIN_REAL(__openat_2)(folder, path, flags); });
}

TWIN_EXPORT int __openat64_2(int folder, const char* path, int flags) {
  return open_file(folder, path, flags, [=] { return TWIN_REAL(__openat64_2)(folder, path, flags); });
}

TWIN_EXPORT int creat(const char* path, mode_t mode) {
  return open_file(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, [=] { return TWIN_REAL(creat)(path, mode); });
}

TWIN_EXPORT int creat64(const char* path, mode_t mode) {
  return open_file(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, [=] { return TWIN_REAL(creat64)(path, mode); });
}

TWIN_EXPORT int close(int descriptor) {
  if (twin::is_drive(descriptor)) twin::forget_descriptor(descriptor);
  twin::forget_foreign(descriptor);
  if (twin::self != nullptr) twin::forget_timer(descriptor);
  return TWIN_REAL(close)(descriptor);
}

TWIN_EXPORT ssize_t read(int descriptor, void* buffer, size_t size) {
  if (!twin::is_drive(descriptor)) return TWIN_REAL(read)(descriptor, buffer, size);
  const iovec part{buffer, size};
  return twin::transfer_here(descriptor, Operation::kRead, &part, 1);
}

TWIN_EXPORT ssize_t __read_chk(int descriptor, void* buffer, size_t size, size_t room) {
  return twin::is_drive(descriptor) ? read(descriptor, buffer, size)
                                    : TWIN_REAL(__read_chk)(descriptor, buffer, size, room);
}

TWIN_EXPORT ssize_t readv(int descriptor, const iovec* parts, int count) {
  if (twin::is_drive(descriptor)) return twin::transfer_here(descriptor, Operation::kRead, parts, count);
  twin::check_use(descriptor, "reading");
  return TWIN_REAL(readv)(descriptor, parts, count);
}

TWIN_EXPORT ssize_t pread(int descriptor, void* buffer, size_t size, off_t offset) {
  if (twin::is_drive(descriptor)) return read_at(descriptor, buffer, size, offset);
  twin::check_use(descriptor, "reading");
  return TWIN_REAL(pread)(descriptor, buffer, size, offset);
}

TWIN_EXPORT ssize_t pread64(int descriptor, void* buffer, size_t size, off64_t offset) {
  if (twin::is_drive(descriptor)) return read_at(descriptor, buffer, size, offset);
  twin::check_use(descriptor, "reading");
  return TWIN_REAL(pread64)(descriptor, buffer, size, offset);
}

TWIN_EXPORT ssize_t __pread_chk(int descriptor, void* buffer, size_t size, off_t offset, size_t room) {
  if (twin::is_drive(descriptor)) return read_at(descriptor, buffer, size, offset);
  twin::check_use(descriptor, "reading");
  return TWIN_REAL(__pread_chk)(descriptor, buffer, size, offset, room);
}

TWIN_EXPORT ssize_t __pread64_chk(int descriptor, void* buffer, size_t size, off64_t offset, size_t room) {
  if (twin::is_drive(descriptor)) return read_at(descriptor, buffer, size, offset);
  twin::check_use(descriptor, "reading");
  return TWIN_REAL(__pread64_chk)(descriptor, buffer, size, offset, room);
}

TWIN_EXPORT ssize_t preadv(int descriptor, const iovec* parts, int count, off_t offset) {
  if (twin::is_drive(descriptor)) return twin::transfer(descriptor, Operation::kRead, parts, count, offset);
  twin::check_use(descriptor, "reading");
  return TWIN_REAL(preadv)(descriptor, parts, count, offset);
}

TWIN_EXPORT ssize_t preadv64(int descriptor, const iovec* parts, int count, off64_t offset) {
  if (twin::is_drive(descriptor)) return twin::transfer(descriptor, Operation::kRead, parts, count, offset);
  twin::check_use(descriptor, "reading");
  return TWIN_REAL(preadv64)(descriptor, parts, count, offset);
}

TWIN_EXPORT ssize_t preadv2(int descriptor, const iovec* parts, int count, off_t offset, int flags) {
  if (twin::is_drive(descriptor)) return transfer_v2(descriptor, Operation::kRead, parts, count, offset, flags);
  twin::check_use(descriptor, "reading");
  return TWIN_REAL(preadv2)(descriptor, parts, count, offset, flags);
}

TWIN_EXPORT ssize_t preadv64v2(int descriptor, const iovec* parts, int count, off64_t offset, int flags) {
  if (twin::is_drive(descriptor)) return transfer_v2(descriptor, Operation::kRead, parts, count, offset, flags);
  twin::check_use(descriptor, "reading");
  return TWIN_REAL(preadv64v2)(descriptor, parts, count, offset, flags);
}

TWIN_EXPORT ssize_t write(int descriptor, const void* buffer, size_t size) {
  if (twin::is_drive(descriptor)) {
    const iovec part{const_cast<void*>(buffer), size};
    return twin::transfer_here(descriptor, Operation::kWrite, &part, 1);
  }
  const ssize_t written = TWIN_REAL(write)(descriptor, buffer, size);
  if (twin::self != nullptr && !twin::timeline().alone()) twin::look_at_descriptors_again();
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

TWIN_EXPORT ssize_t pwrite64(int descriptor, const void* buffer, size_t size, off64_t offset) {
  return twin::is_drive(descriptor) ? write_at(descriptor, buffer, size, offset)
                                    : TWIN_REAL(pwrite64)(descriptor, buffer, size, offset);
}

TWIN_EXPORT ssize_t pwritev(int descriptor, const iovec* parts, int count, off_t offset) {
  return twin::is_drive(descriptor) ? twin::transfer(descriptor, Operation::kWrite, parts, count, offset)
                                    : TWIN_REAL(pwritev)(descriptor, parts, count, offset);
}

TWIN_EXPORT ssize_t pwritev64(int descriptor, const iovec* parts, int count, off64_t offset) {
  return twin::is_drive(descriptor) ? twin::transfer(descriptor, Operation::kWrite, parts, count, offset)
                                    : TWIN_REAL(pwritev64)(descriptor, parts, count, offset);
}

TWIN_EXPORT ssize_t pwritev2(int descriptor, const iovec* parts, int count, off_t offset, int flags) {
  return twin::is_drive(descriptor) ? transfer_v2(descriptor, Operation::kWrite, parts, count, offset, flags)
                                    : TWIN_REAL(pwritev2)(descriptor, parts, count, offset, flags);
}

TWIN_EXPORT ssize_t pwritev64v2(int descriptor, const iovec* parts, int count, off64_t offset, int flags) {
  return twin::is_drive(descriptor) ? transfer_v2(descriptor, Operation::kWrite, parts, count, offset, flags)
                                    : TWIN_REAL(pwritev64v2)(descriptor, parts, count, offset, flags);
}

TWIN_EXPORT off_t lseek(int descriptor, off_t offset, int whence) noexcept {
  if (twin::is_drive(descriptor)) return twin::seek(descriptor, offset, whence);
  twin::check_use(descriptor, "seeking");
  return TWIN_REAL(lseek)(descriptor, offset, whence);
}

TWIN_EXPORT off64_t lseek64(int descriptor, off64_t offset, int whence) noexcept {
  if (twin::is_drive(descriptor)) return twin::seek(descriptor, offset, whence);
  twin::check_use(descriptor, "seeking");
  return TWIN_REAL(lseek64)(descriptor, offset, whence);
}

TWIN_EXPORT int fsync(int descriptor) {
  return twin::is_drive(descriptor) ? twin::flush_drive(descriptor) : TWIN_REAL(fsync)(descriptor);
}

TWIN_EXPORT int fdatasync(int descriptor) {
  return twin::is_drive(descriptor) ? twin::flush_drive(descriptor) : TWIN_REAL(fdatasync)(descriptor);
}

TWIN_EXPORT int syncfs(int descriptor) noexcept {
  return twin::is_drive(descriptor) ? twin::flush_drive(descriptor) : TWIN_REAL(syncfs)(descriptor);
}

// These calls do nothing on the drive, because there is no page cache.
TWIN_EXPORT int sync_file_range(int descriptor, off64_t offset, off64_t size, unsigned int flags) {
  return twin::is_drive(descriptor) ? 0 : TWIN_REAL(sync_file_range)(descriptor, offset, size, flags);
}

TWIN_EXPORT int posix_fadvise(int descriptor, off_t offset, off_t size, int advice) noexcept {
  if (twin::is_drive(descriptor)) return 0;
  twin::check_use(descriptor, "I/O");
  return TWIN_REAL(posix_fadvise)(descriptor, offset, size, advice);
}

TWIN_EXPORT int posix_fadvise64(int descriptor, off64_t offset, off64_t size, int advice) noexcept {
  if (twin::is_drive(descriptor)) return 0;
  twin::check_use(descriptor, "I/O");
  return TWIN_REAL(posix_fadvise64)(descriptor, offset, size, advice);
}

TWIN_EXPORT ssize_t readahead(int descriptor, off64_t offset, size_t size) noexcept {
  if (twin::is_drive(descriptor)) return 0;
  twin::check_use(descriptor, "I/O");
  return TWIN_REAL(readahead)(descriptor, offset, size);
}

namespace {

int punch(int mode, off_t offset, off_t size) {
  if ((mode & FALLOC_FL_PUNCH_HOLE) == 0 || offset < 0 || size <= 0) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return twin::discard(static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(size));
}

}  // namespace

TWIN_EXPORT int fallocate(int descriptor, int mode, off_t offset, off_t size) {
  if (twin::is_drive(descriptor)) return punch(mode, offset, size);
  twin::check_use(descriptor, "fallocate");
  return TWIN_REAL(fallocate)(descriptor, mode, offset, size);
}

TWIN_EXPORT int fallocate64(int descriptor, int mode, off64_t offset, off64_t size) {
  if (twin::is_drive(descriptor)) return punch(mode, offset, size);
  twin::check_use(descriptor, "fallocate");
  return TWIN_REAL(fallocate64)(descriptor, mode, offset, size);
}

// The size of a block device cannot be changed.
TWIN_EXPORT int ftruncate(int descriptor, off_t size) noexcept {
  twin::check_use(descriptor, "ftruncate");
  if (!twin::is_drive(descriptor)) return TWIN_REAL(ftruncate)(descriptor, size);
  errno = EINVAL;
  return -1;
}

TWIN_EXPORT int ftruncate64(int descriptor, off64_t size) noexcept {
  twin::check_use(descriptor, "ftruncate");
  if (!twin::is_drive(descriptor)) return TWIN_REAL(ftruncate64)(descriptor, size);
  errno = EINVAL;
  return -1;
}

// ---- calls that are refused on the drive

TWIN_EXPORT void* mmap(void* address, size_t size, int protection, int flags, int descriptor, off_t offset) noexcept {
  if ((flags & MAP_ANONYMOUS) == 0 && twin::is_drive(descriptor)) {
    twin::refuse("mmap of the drive", "its accesses cannot be seen", "Use ioengine=psync or ioengine=libaio");
  }
  if ((flags & MAP_ANONYMOUS) == 0) twin::check_use(descriptor, "mmap");
  return TWIN_REAL(mmap)(address, size, protection, flags, descriptor, offset);
}

TWIN_EXPORT void* mmap64(void* address, size_t size, int protection, int flags, int descriptor,
                         off64_t offset) noexcept {
  if ((flags & MAP_ANONYMOUS) == 0 && twin::is_drive(descriptor)) {
    twin::refuse("mmap of the drive", "its accesses cannot be seen", "Use ioengine=psync or ioengine=libaio");
  }
  if ((flags & MAP_ANONYMOUS) == 0) twin::check_use(descriptor, "mmap");
  return TWIN_REAL(mmap64)(address, size, protection, flags, descriptor, offset);
}

TWIN_EXPORT ssize_t splice(int in, off64_t* in_offset, int out, off64_t* out_offset, size_t size, unsigned int flags) {
  if (twin::is_drive(in) || twin::is_drive(out)) {
    twin::refuse("splice", "the data do not pass through the program", "Use ioengine=psync or ioengine=libaio");
  }
  twin::check_use(in, "splice");
  twin::check_use(out, "splice");
  return TWIN_REAL(splice)(in, in_offset, out, out_offset, size, flags);
}

TWIN_EXPORT ssize_t sendfile(int out, int in, off_t* offset, size_t size) noexcept {
  if (twin::is_drive(in) || twin::is_drive(out)) {
    twin::refuse("sendfile", "the data do not pass through the program", "Use read() and write()");
  }
  return TWIN_REAL(sendfile)(out, in, offset, size);
}
