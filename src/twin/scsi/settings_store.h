// Where a drive keeps its mode page between the programs that talk to it: a small file in its state directory.
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
  // Keeps other programs from changing the settings as long as it lives.
  class Lock {
   public:
    explicit Lock(int descriptor) : descriptor_(descriptor) {}
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    int descriptor_;
  };

  explicit SettingsStore(std::string folder) : folder_(std::move(folder)), path_(folder_ + "/mode-pages") {}

  // Waits until no other program changes the settings. Throws std::runtime_error when there is no such folder.
  [[nodiscard]] Lock lock() const;

  // Reads the file into `settings`, which it leaves alone when there is none. Throws std::runtime_error for a file that
  // is no such file.
  void load(StoredSettings& settings) const;

  // Writes the file anew, whole or not at all. Throws std::runtime_error when it cannot.
  void store(const StoredSettings& settings) const;

 private:
  std::string folder_;
  std::string path_;
};

}  // namespace twin
