// The file has two lines, `current` and `saved`, each with a page in hexadecimal.
#include "scsi/settings_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace twin {
namespace {

std::string to_hex(const CachingPage& page) {
  std::string text;
  char digits[3];
  for (const std::uint8_t byte : page) {
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

bool from_hex(const std::string& text, CachingPage& page) {
  if (text.size() != 2 * page.size() || text.find_first_not_of("0123456789abcdef") != std::string::npos) return false;
  for (std::size_t i = 0; i < page.size(); ++i) {
    page[i] = static_cast<std::uint8_t>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
  }
  const CachingPage empty = empty_caching_page();
  return page[0] == empty[0] && page[1] == empty[1];
}

}  // namespace

// Locks the folder itself, so that no lock file is left behind.
SettingsStore::Lock::Lock(const std::string& folder)
    : descriptor_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  while (descriptor_ < 0 || flock(descriptor_, LOCK_EX) != 0) {
    if (descriptor_ >= 0 && errno == EINTR) continue;
    const std::string message = folder + ": " + std::strerror(errno);
    if (descriptor_ >= 0) close(descriptor_);
    throw std::runtime_error(message);
  }
}

SettingsStore::Lock::~Lock() { close(descriptor_); }

void SettingsStore::load(StoredSettings& settings) const {
  std::ifstream file(path_);
  if (!file && errno == ENOENT) return;
  std::string name[2];
  std::string page[2];
  file >> name[0] >> page[0] >> name[1] >> page[1];
  // without its settings, the drive would be another one
  if (file.bad() || !file.is_open()) throw std::runtime_error(path_ + ": " + std::strerror(errno));
  StoredSettings found{};
  if (!file || name[0] != "current" || name[1] != "saved" || !from_hex(page[0], found.current) ||
      !from_hex(page[1], found.saved)) {
    throw std::runtime_error(path_ +
                             ": not a settings file of a simulated drive; delete it to restore the factory settings");
  }
  settings = found;
}

void SettingsStore::store(const StoredSettings& settings) const {
  const std::string temporary = path_ + "." + std::to_string(getpid());
  std::remove(temporary.c_str());  // a symbolic link would be followed
  std::ofstream file(temporary);
  file << "current " << to_hex(settings.current) << "\nsaved " << to_hex(settings.saved) << "\n";
  file.close();
  if (!file || std::rename(temporary.c_str(), path_.c_str()) != 0) {
    const std::string why = std::strerror(errno);
    std::remove(temporary.c_str());
    throw std::runtime_error(path_ + ": " + why);
  }
}

}  // namespace twin
