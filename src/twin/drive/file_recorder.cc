// Buffering and writing of records. Stdio is not used, because the recorder runs inside programs that use it
// themselves.
#include "drive/file_recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace twin {
namespace {

constexpr std::size_t kBufferedRecords = 16384;

}  // namespace

FileRecorder::FileRecorder(const char* path) : descriptor_(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) throw std::runtime_error(std::string(path) + ": " + std::strerror(errno));
  records_.reserve(kBufferedRecords);
}

FileRecorder::~FileRecorder() {
  flush();
  close(descriptor_);
}

void FileRecorder::record(Nanoseconds now, Series series, std::uint32_t index, double value) {
  records_.push_back({now, static_cast<std::uint16_t>(series), 0, index, value});
  if (records_.size() == kBufferedRecords) flush();
}

bool FileRecorder::flush() {
  const char* rest = reinterpret_cast<const char*>(records_.data());
  std::size_t left = records_.size() * sizeof(Record);
  while (left > 0) {
    const ssize_t written = write(descriptor_, rest, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      good_ = false;
      break;
    }
    rest += written;
    left -= static_cast<std::size_t>(written);
  }
  records_.clear();
  return good_;
}

}  // namespace twin
