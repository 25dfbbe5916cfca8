// A recorder that writes its series to a file, in records of 24 bytes that Python turns into a table.
#pragma once

#include <cstdint>
#include <vector>

#include "core/counters.h"

namespace twin {

// Each record: time_ns (int64), series (uint16), two bytes of zero, index (uint32), value (double), as the machine
// stores them. Throws std::runtime_error when the file cannot be opened; later failures show in flush().
class FileRecorder final : public Recorder {
 public:
  explicit FileRecorder(const char* path);
  ~FileRecorder();
  FileRecorder(const FileRecorder&) = delete;
  FileRecorder& operator=(const FileRecorder&) = delete;

  void record(Nanoseconds now, Series series, std::uint32_t index, double value) override;

  // Writes what is still in memory; false when anything could not be written.
  bool flush();

 private:
  struct Record {
    std::int64_t time_ns;
    std::uint16_t series;
    std::uint16_t zero;
    std::uint32_t index;
    double value;
  };
  static_assert(sizeof(Record) == 24);

  int descriptor_;
  bool good_ = true;
  std::vector<Record> records_;
};

}  // namespace twin
