// Files other than the drive: which of them fio may open, and what it may do with them.
#pragma once

namespace twin {

// Programs other than fio are not restricted. Besides the drive, fio opens its inputs (a log to replay, a pattern,
// files of the system) and what it writes about verification. Its results and logs go through fopen(), which calls
// nothing of this library. Anything else that fio opens is a data file, and its requests would go to a real file or
// device.

// Call before opening a path that is not the drive's. Ends fio if it would be a data file. `folder` is that of
// openat().
void check_open(int folder, const char* path, int flags);

// Call with the result of opening such a path, which it returns. fio may only read the descriptor in order and close
// it.
int opened(int descriptor);
// Call when a descriptor is closed.
void forget_foreign(int descriptor);
// Call when the descriptor `to` has become a copy of `from`: what holds for the one then holds for the other.
void copy_foreign(int from, int to);

// Call before serving a call that fio makes only on data files. Ends fio if the descriptor is that of another file.
void check_use(int descriptor, const char* what);

// Call before a call that changes or creates the file at `path`. Ends fio. `what` names the call.
void check_change(const char* path, const char* what);

}  // namespace twin
