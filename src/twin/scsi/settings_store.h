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
  explicit SettingsStore(std::string folder) : path_(std::move(folder) + "/mode-pages") {}

  // Reads the file into `settings`, which it leaves alone when there is none. Throws std::runtime_error for a file that
  // is no such file.
  void load(StoredSettings& settings) const;

  // Writes the file anew, whole or not at all. Throws std::runtime_error when it cannot.
  void store(const StoredSettings& settings) const;

 private:
  std::string path_;
};

}  // namespace twin
