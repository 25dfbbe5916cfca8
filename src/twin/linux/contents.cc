// One mapping as large as the drive. The kernel allocates its pages when they are written.
#include "linux/contents.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace twin {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

}  // namespace

Contents::Contents(std::uint64_t size_bytes, const std::string& path) : size_bytes_(size_bytes) {
  if (!path.empty()) {
    file_ = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(size_bytes)) != 0) {
      throw std::runtime_error(path + ": " + std::strerror(errno));
    }
  }
  const int kind = path.empty() ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  void* const mapped = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, kind, file_, 0);
  if (mapped == MAP_FAILED) throw std::runtime_error(std::string("the drive's contents: ") + std::strerror(errno));
  bytes_ = static_cast<unsigned char*>(mapped);
}

Contents::~Contents() {
  munmap(bytes_, size_bytes_);
  if (file_ >= 0) close(file_);
}

void Contents::read(std::uint64_t offset, void* to, std::size_t size_bytes) const {
  std::memcpy(to, bytes_ + offset, size_bytes);
}

void Contents::write(std::uint64_t offset, const void* from, std::size_t size_bytes) {
  std::memcpy(bytes_ + offset, from, size_bytes);
}

void Contents::discard(std::uint64_t offset, std::uint64_t size_bytes) {
  const std::uint64_t end = offset + size_bytes;
  const std::uint64_t first = (offset + kPageBytes - 1) / kPageBytes * kPageBytes;
  const std::uint64_t last = end / kPageBytes * kPageBytes;
  if (first >= last) {
    std::memset(bytes_ + offset, 0, size_bytes);
    return;
  }
  std::memset(bytes_ + offset, 0, first - offset);
  std::memset(bytes_ + last, 0, end - last);
  const bool given_back = file_ >= 0 ? fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                                 static_cast<off_t>(first), static_cast<off_t>(last - first)) == 0
                                     : madvise(bytes_ + first, last - first, MADV_DONTNEED) == 0;
  if (!given_back) std::memset(bytes_ + first, 0, last - first);
}

}  // namespace twin
