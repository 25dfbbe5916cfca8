// The file in which a simulated drive keeps its caching mode page between programs, in its state directory.
#pragma once

#include <string>

#include "scsi/caching_page.h"

namespace twin {

struct StoredSettings {
  CachingPage current;
  CachingPage saved;
};

class SettingsStore {
 public:
  // Prevents other programs from changing the settings while it exists.
  class Lock {
   public:
    explicit Lock(const std::string& folder);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    int descriptor_;
  };

  explicit SettingsStore(std::string folder) : folder_(std::move(folder)), path_(folder_ + "/mode-pages") {}

  // Locks the settings; waits while another program has them locked. Throws std::runtime_error if the folder is
  // missing.
  [[nodiscard]] Lock lock() const { return Lock(folder_); }

  // Reads the file into `settings`. Leaves them unchanged if there is no file. Throws std::runtime_error if the file
  // cannot be read or is invalid.
  void load(StoredSettings& settings) const;

  // Replaces the file atomically. Throws std::runtime_error if it cannot be written.
  void store(const StoredSettings& settings) const;

 private:
  std::string folder_;
  std::string path_;
};

}  // namespace twin
