// What is stored on the simulated drive: kept in memory, or in a sparse file that other programs can read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace twin {

class Contents {
 public:
  // Without a path in memory alone, of which only what is written is taken. Throws std::runtime_error.
  Contents(std::uint64_t size_bytes, const std::string& path);
  ~Contents();
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;

  // Both must lie within the drive.
  void read(std::uint64_t offset, void* to, std::size_t size_bytes) const;
  void write(std::uint64_t offset, const void* from, std::size_t size_bytes);
  // Reads give zeros afterwards; the memory, or the space in the file, is freed.
  void discard(std::uint64_t offset, std::uint64_t size_bytes);

 private:
  unsigned char* bytes_;
  std::uint64_t size_bytes_;
  int file_ = -1;
};

}  // namespace twin
