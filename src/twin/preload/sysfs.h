// The drive's folder in /sys, from which programs such as lsblk read what a disk is, and /proc/uptime.
#pragma once

#include <string>

namespace twin {

// A device number that no real device has, so that no program takes the drive for a device of the machine.
inline constexpr unsigned kMajor = 4000;
inline constexpr unsigned kMinor = 0;

// Returns the path of a file for /proc/uptime and for a path below the drive's folder in /sys, and `path` itself for
// any other path. The file is in the state folder, where it is written when a program asks. fio gets no such file: it
// would look for counters in /sys.
std::string served_path(const char* path);

}  // namespace twin
