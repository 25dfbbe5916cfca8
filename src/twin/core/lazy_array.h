// An array as large as a drive that takes memory only where it is written.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

namespace twin {

// All elements start as zero bytes. The kernel allocates a page of memory at the first write to it.
template <class T>
class LazyArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  LazyArray() = default;
  explicit LazyArray(std::size_t size) : size_(size) {
    if (size == 0) return;
    const std::size_t bytes = size * sizeof(T);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    data_ = std::unique_ptr<T[], Unmap>(static_cast<T*>(memory), Unmap{bytes});
  }

  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Unmap {
    std::size_t bytes = 0;
    void operator()(T* memory) const { munmap(memory, bytes); }
  };

  std::unique_ptr<T[], Unmap> data_;
  std::size_t size_ = 0;
};

}  // namespace twin
