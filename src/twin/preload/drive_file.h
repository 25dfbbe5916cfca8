// The drive as a file of the program: which descriptors belong to it, and what reading and writing them does.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "core/units.h"
#include "drive/drive.h"
#include "scsi/scsi_target.h"

namespace twin {

// The path of the drive; nullptr when the program is run without one.
const char* drive_path();
bool is_drive_path(const char* path);

// Opens a descriptor for the drive. To the kernel it is an empty sealed file in memory, so a call that is not
// interposed finds the end of the file or fails, and never succeeds unnoticed. Returns -1 with errno set as open()
// does.
int open_drive(int flags);
bool is_drive(int descriptor);
void forget_descriptor(int descriptor);
void copy_descriptor(int from, int to);

// The drive itself. It is created on first use.
Drive& drive();
const Parameters& drive_parameters();
ScsiTarget& scsi_target();

// Submits one request and waits for its completion. Its offset and size must be whole sectors within the drive.
void serve(const Request& request);

// Does what pread(2) and pwrite(2) do at `offset`; returns what they return, and sets errno.
ssize_t transfer(int descriptor, Operation operation, const iovec* parts, int count, off_t offset);
// The same at the descriptor's own position, which moves by what has been transferred.
ssize_t transfer_here(int descriptor, Operation operation, const iovec* parts, int count);
off_t seek(int descriptor, off_t offset, int whence);
int flush_drive(int descriptor);
int discard(std::uint64_t offset_bytes, std::uint64_t size_bytes);

// For asynchronous I/O: checks a transfer as the kernel does. Returns its size, 0 at the drive's end, or -errno.
ssize_t check_transfer(Operation operation, const iovec* parts, int count, off_t offset, int flags);
// Moves the data of a transfer between the program's memory and the kept content; takes no virtual time.
void move_data(Operation operation, const iovec* parts, int count, off_t offset, std::uint64_t size_bytes);
int flags_of(int descriptor);

// Submits a request without waiting, and charges its processor time to the caller. `*done_ns` is kNever while the
// request is outstanding, then the time of its completion, at which a thread that waits for `key` on the timeline is
// woken.
void submit(const Request& request, const void* key, Nanoseconds* done_ns);

// The number of the calling thread among those that use the drive. Refuses a forked process, and a fio that does not
// read the system's clock.
std::uint32_t job_number();

}  // namespace twin
