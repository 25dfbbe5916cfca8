// A recorder that writes time series to a file, in records of 24 bytes that Python converts to a table.
#pragma once

#include <cstdint>
#include <vector>

#include "core/counters.h"

namespace twin {

// A record consists of time_ns (int64), series (uint16), two zero bytes, index (uint32) and value (double), in the byte
// order of the machine.
class FileRecorder final : public Recorder {
 public:
  // Throws std::runtime_error if the file cannot be opened. flush() reports later errors.
  explicit FileRecorder(const char* path);
  ~FileRecorder();
  FileRecorder(const FileRecorder&) = delete;
  FileRecorder& operator=(const FileRecorder&) = delete;

  void record(Nanoseconds now, Series series, std::uint32_t index, double value) override;

  // Writes the records that are in memory. Returns false if any record so far could not be written.
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
