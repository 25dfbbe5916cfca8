// The drive as a file of the program: its descriptors, and what reading and writing them does.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/units.h"
#include "drive/drive.h"
#include "nvme/nvme_controller.h"
#include "scsi/scsi_target.h"

namespace twin {

// The path of the drive; nullptr if the program runs without a drive.
const char* drive_path();
bool is_drive_path(const char* path);

// Replaces the content of a file in the state folder. A link is not followed.
void write_own_file(const char* path, const std::string& text);

// Opens a descriptor for the drive. Returns -1 with errno set as open() does. For the kernel the descriptor is an
// empty, sealed file in memory. A call that is not interposed therefore fails or finds the end of the file; it never
// succeeds unnoticed.
int open_drive(int flags);
// The functions below require a descriptor of the drive unless they say otherwise.
bool is_drive(int descriptor);  // takes any number
void forget_descriptor(int descriptor);
void copy_descriptor(int from, int to);

// The drive, its parameters, its SCSI target and, for an NVMe drive, its controller. Each is created on first use.
Drive& drive();
const Parameters& drive_parameters();
ScsiTarget& scsi_target();
const NvmeController& nvme_controller();

// Submits a request and waits for its completion. Its offset and size must be whole sectors within the drive.
void serve(const Request& request);

// The following functions return what the system calls return, and set errno.

// preadv(2) or pwritev(2) on the drive.
ssize_t transfer(int descriptor, Operation operation, const iovec* parts, int count, off_t offset);
// readv(2) or writev(2) on the drive: transfers at the descriptor's position, and moves the position.
ssize_t transfer_here(int descriptor, Operation operation, const iovec* parts, int count);
off_t seek(int descriptor, off_t offset, int origin);
int flush_drive();
int discard(std::uint64_t offset_bytes, std::uint64_t size_bytes);

// The parts of an asynchronous transfer.

// Checks a transfer as the kernel does. Returns the number of bytes to transfer, 0 at the end of the drive, or -errno.
ssize_t check_transfer(Operation operation, const iovec* parts, int count, off_t offset, int flags);
// Returns the request of the calling thread for all sectors of [offset, offset + size).
Request sectors(Operation operation, std::uint64_t offset_bytes, std::uint64_t size_bytes);
// Moves the data of a transfer between the program's memory and the file of --keep-data. Takes no virtual time.
void move_data(Operation operation, const iovec* parts, int count, off_t offset, std::uint64_t size_bytes);
int flags_of(int descriptor);
// Changes the flags that F_SETFL of fcntl() can change: O_APPEND, O_DIRECT, O_NOATIME, O_NONBLOCK.
void set_flags(int descriptor, int flags);

// Submits a request without waiting, and charges its processor time to the calling thread. `*done_ns` is kNever while
// the request is outstanding. On completion it becomes the time of completion, and a thread that waits for `key` on the
// timeline is woken.
void submit(const Request& request, const void* key, Nanoseconds* done_ns);

// The number of the calling thread among the threads that use the drive. Refuses a forked process, and a fio that does
// not read the system's clock.
std::uint32_t job_number();

}  // namespace twin
