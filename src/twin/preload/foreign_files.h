// The files of fio that are not the drive: which it may open, and what it may do to them.
#pragma once

namespace twin {

// Programs other than fio do with files what they like. fio opens, beside the drive, what it reads to be told something
// (a log to replay, a pattern, the system's own files) and what it writes about verifying; its results and logs go
// through fopen(), which calls nothing of this library. Whatever else it opens is a data file, whose requests would go
// to whatever lies there.

// Called before a path that is not the drive's is opened; ends fio, before anything has happened to the file, where it
// would be a data file. `folder` is as for openat().
void check_open(int folder, const char* path, int flags);

// Called with what opening it gave: fio may read such a descriptor from its beginning to its end, and close it.
int opened(int descriptor);
// A descriptor is closed.
void forget_foreign(int descriptor);
// A descriptor has become a copy of another one, and is from now on what that is.
void copy_foreign(int from, int to);

// Called before a call that fio makes on data files alone; ends fio if the descriptor is that of another file.
void check_use(int descriptor, const char* what);

// Called before a call that changes the file of this name or makes one; ends fio. `what` is the call.
void check_change(const char* path, const char* what);

}  // namespace twin
