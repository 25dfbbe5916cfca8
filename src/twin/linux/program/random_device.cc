// A library for LD_PRELOAD into the programs of the guest. std::random_device of libstdc++ takes its numbers from an
// instruction of the processor (RDSEED or RDRAND), which the guest's kernel cannot replace. This library takes them
// from the kernel, whose random numbers are the same in every run. rr (https://rr-project.org) replaces the class, too.
#include <sys/random.h>

#include <cstdlib>

// std::random_device::_M_getval(); only its name is known outside libstdc++
extern "C" __attribute__((visibility("default"))) unsigned random_device_value(void*) __asm__(
    "_ZNSt13random_device9_M_getvalEv");

unsigned random_device_value(void*) {
  unsigned value = 0;
  if (getrandom(&value, sizeof value, 0) != sizeof value) std::abort();
  return value;
}
