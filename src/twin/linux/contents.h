// The content of the simulated drive, in memory or in a sparse file that other programs can read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace twin {

class Contents {
 public:
  // Keeps the content in the empty file `path`, or in memory if `path` is empty. Only written pages take space.
  // Throws std::runtime_error if the file is missing or cannot be written, or if the memory cannot be mapped.
  Contents(std::uint64_t size_bytes, const std::string& path);
  ~Contents();
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;

  // Both ranges must be within the drive.
  void read(std::uint64_t offset, void* to, std::size_t size_bytes) const;
  void write(std::uint64_t offset, const void* from, std::size_t size_bytes);
  // Makes later reads of the range return zeros, and frees its memory or its space in the file.
  void discard(std::uint64_t offset, std::uint64_t size_bytes);

 private:
  unsigned char* bytes_;
  std::uint64_t size_bytes_;
  int file_ = -1;
};

}  // namespace twin
