// The drive as a block device: stat(), ioctl() and access().
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/hdreg.h>
#include <linux/nvme_ioctl.h>
#include <scsi/sg.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "preload/drive_file.h"
#include "preload/foreign_files.h"
#include "preload/process.h"
#include "preload/real.h"
#include "preload/sysfs.h"

namespace {

constexpr mode_t kMode = S_IFBLK | 0660;
constexpr blksize_t kBlockBytes = 4096;

// Whether a call of the kind of fstatat() means the drive.
bool names_drive(int folder, const char* path) {
  return twin::is_drive_path(path) || (*path == '\0' && twin::is_drive(folder));
}

template <class Stat>
int show_device(Stat* result) {
  memset(result, 0, sizeof *result);
  result->st_mode = kMode;
  result->st_nlink = 1;
  result->st_ino = 1;
  result->st_rdev = makedev(twin::kMajor, twin::kMinor);
  result->st_blksize = kBlockBytes;
  result->st_atim.tv_sec = result->st_mtim.tv_sec = result->st_ctim.tv_sec = twin::kRealtimeStart / twin::kSecond;
  return 0;
}

// Whether the drive is an NVMe drive, which has no SCSI commands.
bool is_nvme() { return !twin::scsi_target().speaks_scsi(); }

// Serves SG_IO, in version 3 of its interface.
int execute_scsi(sg_io_hdr* header) {
  twin::ScsiTarget& target = twin::scsi_target();
  if (is_nvme()) {
    errno = ENOTTY;  // as on an NVMe drive
    return -1;
  }
  if (header->interface_id != 'S' || header->iovec_count != 0 || header->cmdp == nullptr) {
    errno = header->interface_id != 'S' ? ENOSYS : EINVAL;
    return -1;
  }
  auto* data = static_cast<unsigned char*>(header->dxferp);
  const bool to_drive = header->dxfer_direction == SG_DXFER_TO_DEV;
  const bool from_drive =
      header->dxfer_direction == SG_DXFER_FROM_DEV || header->dxfer_direction == SG_DXFER_TO_FROM_DEV;
  twin::ScsiResult result;
  try {
    result = target.execute(header->cmdp, header->cmd_len, data, to_drive ? header->dxfer_len : 0, data,
                            from_drive ? header->dxfer_len : 0);
  } catch (const std::exception& error) {
    twin::fail(error.what());
  }
  if (result.data_command) {
    twin::refuse("reading or writing through SG_IO", "only settings go that way",
                 "Use ioengine=psync or ioengine=libaio");
  }
  header->status = result.status;
  header->masked_status = static_cast<unsigned char>(result.status >> 1);
  header->host_status = 0;
  header->driver_status = result.status == 0 ? 0 : 0x08;  // DRIVER_SENSE
  header->msg_status = 0;
  header->duration = 0;
  header->sb_len_wr = 0;
  if (result.status != 0 && header->sbp != nullptr) {
    header->sb_len_wr = static_cast<unsigned char>(std::min<std::size_t>(header->mx_sb_len, result.sense_bytes));
    memcpy(header->sbp, result.sense.data(), header->sb_len_wr);
  }
  header->resid = static_cast<int>(from_drive ? header->dxfer_len - result.transferred_bytes : 0);
  header->info = result.status == 0 ? SG_INFO_OK : SG_INFO_CHECK;
  twin::spend(20 * twin::kMicrosecond);  // the duration of the call
  return 0;
}

// Serves an admin command of NVMe, and returns its status as the kernel does.
template <class Command>
int execute_nvme(Command* command) {
  const twin::NvmeController::Command given{command->opcode, command->nsid, command->cdw10, command->cdw11,
                                            command->cdw12};
  twin::NvmeResult result;
  try {
    result = twin::nvme_controller().execute(given, reinterpret_cast<std::uint8_t*>(command->addr), command->data_len);
  } catch (const std::exception& error) {
    twin::fail(error.what());
  }
  command->result = result.value;
  twin::spend(20 * twin::kMicrosecond);  // the duration of the call
  return result.status;
}

// Serves HDIO_GET_IDENTITY: the first words of IDENTIFY DEVICE.
int identify_ata(void* argument) {
  constexpr std::uint8_t kIdentifyDevice[16] = {0x85, 0x08, 0x0E, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xEC, 0};
  std::uint8_t sector[512];
  const twin::ScsiResult result =
      twin::scsi_target().execute(kIdentifyDevice, sizeof kIdentifyDevice, nullptr, 0, sector, sizeof sector);
  if (result.status != 0) {
    errno = ENOTTY;  // not an ATA drive
    return -1;
  }
  hd_driveid& identity = *static_cast<hd_driveid*>(argument);
  memcpy(&identity, sector, sizeof identity);
  const auto swap_bytes = [](auto& text) {  // as the kernel does
    for (std::size_t i = 0; i + 1 < sizeof text; i += 2) std::swap(text[i], text[i + 1]);
  };
  swap_bytes(identity.serial_no);
  swap_bytes(identity.fw_rev);
  swap_bytes(identity.model);
  return 0;
}

int control_device(unsigned long request, void* argument) {
  const std::uint64_t size_bytes = static_cast<std::uint64_t>(twin::drive_parameters().capacity.size);
  switch (request) {
    case BLKGETSIZE64:
      *static_cast<std::uint64_t*>(argument) = size_bytes;
      return 0;
    case BLKGETSIZE:
      *static_cast<unsigned long*>(argument) = size_bytes / twin::kSectorBytes;
      return 0;
    case BLKSSZGET:
      *static_cast<int*>(argument) = static_cast<int>(twin::kSectorBytes);
      return 0;
    case BLKPBSZGET:
    case BLKIOMIN:
    case BLKIOOPT:
      *static_cast<unsigned int*>(argument) = kBlockBytes;
      return 0;
    case BLKROTATIONAL:
      *static_cast<unsigned short*>(argument) = twin::drive_parameters().kind == twin::DriveKind::kHardDisk;
      return 0;
    case BLKROGET:
      *static_cast<int*>(argument) = 0;
      return 0;
    case BLKDISCARDZEROES:
      *static_cast<unsigned int*>(argument) = 0;
      return 0;
    case BLKALIGNOFF:
      *static_cast<int*>(argument) = 0;
      return 0;
    case BLKBSZGET:
      *static_cast<int*>(argument) = kBlockBytes;
      return 0;
    case BLKSECTGET:
      *static_cast<unsigned short*>(argument) = static_cast<unsigned short>(std::min<std::uint64_t>(
          static_cast<std::uint64_t>(twin::drive_parameters().host.max_request) / twin::kSectorBytes, USHRT_MAX));
      return 0;
    case BLKRAGET:
    case BLKFRAGET:
      *static_cast<long*>(argument) = 0;  // there is no page cache, so the kernel reads nothing ahead
      return 0;
    case BLKFLSBUF:
    case BLKRASET:
    case BLKFRASET:
    case BLKBSZSET:
      return 0;
    case HDIO_GETGEO: {  // the geometry that Linux invents for SCSI disks
      constexpr unsigned char kHeads = 255;
      constexpr unsigned char kSectors = 63;
      *static_cast<hd_geometry*>(argument) = {
          kHeads, kSectors, static_cast<unsigned short>(size_bytes / twin::kSectorBytes / kSectors / kHeads), 0};
      return 0;
    }
    case HDIO_GET_IDENTITY:
      return identify_ata(argument);
    case BLKDISCARD: {
      const auto* range = static_cast<const std::uint64_t*>(argument);
      return twin::discard(range[0], range[1]);
    }
    case BLKZEROOUT:
      twin::refuse("BLKZEROOUT", "writing zeros without data is not modelled", "Write zeros");
    case SG_IO:
      return execute_scsi(static_cast<sg_io_hdr*>(argument));
    case SG_GET_VERSION_NUM:
      *static_cast<int*>(argument) = 30536;
      return 0;
    case NVME_IOCTL_ID:
      if (is_nvme()) return 1;  // the number of the namespace
      break;
    case NVME_IOCTL_ADMIN_CMD:
      if (is_nvme()) return execute_nvme(static_cast<nvme_admin_cmd*>(argument));
      break;
    case NVME_IOCTL_ADMIN64_CMD:
      if (is_nvme()) return execute_nvme(static_cast<nvme_passthru_cmd64*>(argument));
      break;
    case NVME_IOCTL_SUBMIT_IO:
    case NVME_IOCTL_IO_CMD:
    case NVME_IOCTL_IO64_CMD:
      if (is_nvme()) {
        twin::refuse("an I/O command of NVMe by ioctl", "only admin commands go that way",
                     "Use read() and write(), for example fio with ioengine=psync or ioengine=libaio");
      }
      break;
    default:
      break;
  }
  errno = ENOTTY;
  return -1;
}

}  // namespace

TWIN_EXPORT int ioctl(int descriptor, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (twin::is_drive(descriptor)) {
    const int error = errno;
    const int result = control_device(request, argument);
    if (result >= 0) errno = error;  // some programs look at errno after a success, too
    return result;
  }
  return TWIN_REAL(ioctl)(twin::checked(descriptor, "ioctl"), request, argument);
}

TWIN_EXPORT int stat(const char* __restrict path, struct stat* __restrict result) noexcept {
  return twin::is_drive_path(path) ? show_device(result) : TWIN_REAL(stat)(path, result);
}

TWIN_EXPORT int stat64(const char* __restrict path, struct stat64* __restrict result) noexcept {
  return twin::is_drive_path(path) ? show_device(result) : TWIN_REAL(stat64)(path, result);
}

TWIN_EXPORT int lstat(const char* __restrict path, struct stat* __restrict result) noexcept {
  return twin::is_drive_path(path) ? show_device(result) : TWIN_REAL(lstat)(path, result);
}

TWIN_EXPORT int lstat64(const char* __restrict path, struct stat64* __restrict result) noexcept {
  return twin::is_drive_path(path) ? show_device(result) : TWIN_REAL(lstat64)(path, result);
}

TWIN_EXPORT int fstat(int descriptor, struct stat* result) noexcept {
  return twin::is_drive(descriptor) ? show_device(result) : TWIN_REAL(fstat)(descriptor, result);
}

TWIN_EXPORT int fstat64(int descriptor, struct stat64* result) noexcept {
  return twin::is_drive(descriptor) ? show_device(result) : TWIN_REAL(fstat64)(descriptor, result);
}

TWIN_EXPORT int fstatat(int folder, const char* __restrict path, struct stat* __restrict result, int flags) noexcept {
  return names_drive(folder, path) ? show_device(result) : TWIN_REAL(fstatat)(folder, path, result, flags);
}

TWIN_EXPORT int fstatat64(int folder, const char* __restrict path, struct stat64* __restrict result,
                          int flags) noexcept {
  return names_drive(folder, path) ? show_device(result) : TWIN_REAL(fstatat64)(folder, path, result, flags);
}

TWIN_EXPORT int statx(int folder, const char* __restrict path, int flags, unsigned int mask,
                      struct statx* __restrict result) noexcept {
  if (!names_drive(folder, path)) return TWIN_REAL(statx)(folder, path, flags, mask, result);
  memset(result, 0, sizeof *result);
  result->stx_mask = STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_INO;
  result->stx_mode = kMode;
  result->stx_nlink = 1;
  result->stx_ino = 1;
  result->stx_blksize = kBlockBytes;
  result->stx_rdev_major = twin::kMajor;
  result->stx_rdev_minor = twin::kMinor;
  return 0;
}

TWIN_EXPORT int access(const char* path, int mode) noexcept {
  return twin::is_drive_path(path) ? 0 : TWIN_REAL(access)(twin::served_path(path).c_str(), mode);
}

// fio searches /sys/block for the drive to read its counters. The drive is not there, so fio need not read all folders.
TWIN_EXPORT DIR* opendir(const char* path) {
  if (twin::self == nullptr || !twin::is_fio() || strcmp(path, "/sys/block") != 0) return TWIN_REAL(opendir)(path);
  errno = ENOENT;
  return nullptr;
}
