// The drive as a file of the program: which descriptors are its, and what reading, writing and asking it does.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "core/units.h"
#include "drive/drive.h"
#include "scsi/scsi_target.h"

namespace twin {

// The path that stands for the drive; nullptr when the program has been given none.
const char* drive_path();
bool is_drive_path(const char* path);

// Opens a descriptor for the drive. It is one of an empty sealed file in memory: what this library does not serve finds
// the end of a file, or is not permitted, and never succeeds in silence. Returns -1 with errno set as open() does.
int open_drive(int flags);
bool is_drive(int descriptor);
void forget_descriptor(int descriptor);
void copy_descriptor(int from, int to);

// The drive itself, made on first use.
Drive& drive();
const Parameters& drive_parameters();
ScsiTarget& scsi_target();

// One request, waited for. Sizes and offsets must be whole sectors within the drive.
void serve(const Request& request);

// read(2) and its kind at `offset`; returns what they return, errno set.
ssize_t transfer(int descriptor, Operation operation, const iovec* parts, int count, off_t offset);
// The same at the descriptor's own position, which moves.
ssize_t transfer_here(int descriptor, Operation operation, const iovec* parts, int count);
off_t seek(int descriptor, off_t offset, int whence);
int flush_drive(int descriptor);
int discard(std::uint64_t offset_bytes, std::uint64_t size_bytes);

// For asynchronous I/O: checks a transfer as the kernel does. Returns its size, 0 at the drive's end, or -errno.
ssize_t check_transfer(Operation operation, const iovec* parts, int count, off_t offset, int flags);
// Moves the data of a transfer between the program's memory and the kept content; takes no virtual time.
void move_data(Operation operation, const iovec* parts, int count, off_t offset, std::uint64_t size_bytes);
int flags_of(int descriptor);

// Submits a request without waiting; its cost is charged to the caller. `*done_ns` is kNever until it is over, then the
// time of its completion; a thread that waits for `key` on the timeline is woken.
void submit(const Request& request, const void* key, Nanoseconds* done_ns);

// The number of the calling thread among those that use the drive; refuses a thread that cannot be served.
std::uint32_t job_number();

}  // namespace twin
