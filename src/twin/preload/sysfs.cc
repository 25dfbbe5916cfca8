// Files with the content that the kernel would show for the drive, and for virtual time.
#include "preload/sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>
#include <utility>

#include "preload/drive_file.h"
#include "preload/process.h"
#include "preload/real.h"

namespace twin {
namespace {

std::string name_of_drive() {
  const std::string_view path = drive_path();
  return std::string(path.substr(path.rfind('/') + 1));
}

std::string device_number() { return std::to_string(kMajor) + ":" + std::to_string(kMinor); }

void make_folder(const std::string& path) {
  if (TWIN_REAL(mkdir)(path.c_str(), 0777) != 0 && errno != EEXIST) fail(path + ": " + strerror(errno));
}

std::string state_folder() {
  const char* const state = getenv("TWIN_STATE");
  if (state == nullptr) fail("the variable TWIN_STATE is not set; run programs with `twin run`");
  return state;
}

// Writes the folder of the drive, and returns its path.
std::string write_folder() {
  const std::string folder = state_folder() + "/sys";
  for (const char* part : {"", "/queue", "/device", "/holders", "/slaves"}) make_folder(folder + part);
  const Parameters& drive = drive_parameters();
  const ScsiTarget& target = scsi_target();
  const bool rotates = drive.kind == DriveKind::kHardDisk;
  const auto number = [](auto value) { return std::to_string(value); };
  const std::string zero = "0";
  const std::pair<const char*, std::string> contents[] = {
      {"dev", device_number()},
      {"size", number(static_cast<std::uint64_t>(drive.capacity.size) / kSectorBytes)},
      {"ro", zero},
      {"removable", zero},
      {"alignment_offset", zero},
      {"discard_alignment", zero},
      {"uevent",
       "MAJOR=" + number(kMajor) + "\nMINOR=" + number(kMinor) + "\nDEVNAME=" + name_of_drive() + "\nDEVTYPE=disk"},
      {"queue/rotational", rotates ? "1" : "0"},
      {"queue/logical_block_size", number(kSectorBytes)},
      {"queue/physical_block_size", "4096"},
      {"queue/minimum_io_size", "4096"},
      {"queue/optimal_io_size", zero},
      {"queue/nr_requests", number(drive.host.nr_requests)},
      {"queue/read_ahead_kb", zero},
      {"queue/max_sectors_kb", number(drive.host.max_request / 1024)},
      {"queue/write_cache", drive.caches_writes() ? "write back" : "write through"},
      {"queue/discard_granularity", rotates ? "0" : "4096"},
      {"queue/discard_max_bytes", rotates ? "0" : "2147450880"},
      {"device/vendor", target.identity("vendor")},
      {"device/model", target.speaks_scsi() ? target.identity("product") : nvme_controller().model()},
      {"device/rev", target.identity("revision")},
      {"device/serial", target.identity("serial")},
      {"device/wwid", (target.speaks_scsi() ? "naa." : "eui.") + target.identity("naa")},
      {"device/state", target.speaks_scsi() ? "running" : "live"},
  };
  for (const auto& [name, content] : contents) write_own_file((folder + "/" + name).c_str(), content + "\n");
  return folder;
}

// Returns what follows `start` in `path`, nullptr if the path does not begin with this folder.
const char* below(const char* path, const std::string& start) {
  if (strncmp(path, start.c_str(), start.size()) != 0) return nullptr;
  const char* const rest = path + start.size();
  return *rest == '\0' || *rest == '/' ? rest : nullptr;
}

}  // namespace

std::string served_path(const char* path) {
  if (self == nullptr || path == nullptr || is_fio()) return path == nullptr ? "" : path;
  if (strcmp(path, "/proc/uptime") == 0) {
    const std::string file = state_folder() + "/uptime";
    char text[64];  // the time since the start of the system, and the time of idle processors
    snprintf(text, sizeof text, "%.2f 0.00\n", static_cast<double>(read_now()) / kSecond);
    write_own_file(file.c_str(), text);
    return file;
  }
  if (strncmp(path, "/sys/", 5) != 0) return path;
  for (const std::string& start :
       {"/sys/dev/block/" + device_number(), "/sys/block/" + name_of_drive(), "/sys/class/block/" + name_of_drive()}) {
    const char* const rest = below(path, start);
    if (rest == nullptr) continue;
    static const std::string folder = write_folder();
    return folder + rest;
  }
  return path;
}

}  // namespace twin

// In /sys the folder of a device number is a link, whose end is the name of the device.
TWIN_EXPORT ssize_t readlink(const char* __restrict path, char* __restrict target, size_t room) noexcept {
  if (twin::self == nullptr || twin::is_fio() || twin::served_path(path) == path) {
    return TWIN_REAL(readlink)(path, target, room);
  }
  const std::string link = "../../devices/virtual/block/" + twin::name_of_drive();
  const std::size_t size = link.copy(target, room);
  return static_cast<ssize_t>(size);
}

// For programs built with _FORTIFY_SOURCE.
extern "C" ssize_t __readlink_chk(const char* path, char* target, size_t size, size_t room);

TWIN_EXPORT ssize_t __readlink_chk(const char* path, char* target, size_t size, size_t room) {
  if (size > room) return TWIN_REAL(__readlink_chk)(path, target, size, room);  // which ends the program
  return readlink(path, target, size);
}

TWIN_EXPORT FILE* fopen(const char* __restrict path, const char* __restrict mode) {
  return TWIN_REAL(fopen)(twin::served_path(path).c_str(), mode);
}

TWIN_EXPORT FILE* fopen64(const char*, const char*) TWIN_ALIAS_OF(fopen);
