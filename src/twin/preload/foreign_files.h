// Files other than the drive: which files fio may open, and what it may do with them.
#pragma once

namespace twin {

// Only fio is restricted. fio opens the drive, its inputs (a log to replay, a pattern, files of the system) and its
// files about verification. It opens its results and logs with fopen(), which does not call this library. Any other
// file that fio opens is a data file, and the requests on it would go to a real file or device.

// Call before opening a path other than the drive's. Ends fio if the path names a data file. `folder` is the first
// argument of openat().
void check_open(int folder, const char* path, int flags);

// Call with the result of opening such a path; returns this result. From then on fio may only read the descriptor in
// order and close it.
int opened(int descriptor);
// Call when a descriptor is closed.
void forget_foreign(int descriptor);
// Call when the descriptor `to` has become a copy of `from`. The copy has the same restriction.
void copy_foreign(int from, int to);

// Call before a call that fio makes only on data files; `what` names the call. Ends fio if `descriptor` belongs to
// another file that it has opened. Returns `descriptor`.
int checked(int descriptor, const char* what);

// Call before a call that changes or creates the file at `path`; `what` names the call. Ends fio.
void check_change(const char* path, const char* what);

}  // namespace twin
