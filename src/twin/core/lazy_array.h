// An array of zeros as large as a drive, of which only the parts that are written take memory.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace twin {

// Elements start as zero bytes. The kernel backs a page of it on the first write to that page.
template <class T>
class LazyArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  LazyArray() = default;
  explicit LazyArray(std::size_t size) : size_(size) {
    if (size == 0) return;
    void* memory =
        mmap(nullptr, size * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(memory);
  }
  ~LazyArray() {
    if (data_ != nullptr) munmap(data_, size_ * sizeof(T));
  }
  LazyArray(LazyArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  LazyArray& operator=(LazyArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  LazyArray(const LazyArray&) = delete;
  LazyArray& operator=(const LazyArray&) = delete;

  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace twin
