// The original functions, which the program would call without this library, and how to define their replacements.
#pragma once

#include <dlfcn.h>
#include <sys/types.h>

// The native tests link the replacements into the test program and hide them, because the library of a sanitizer calls
// mmap() and other functions before it is ready for instrumented code.
#ifdef TWIN_HIDDEN
#define TWIN_EXPORT extern "C" __attribute__((visibility("hidden")))
#else
#define TWIN_EXPORT extern "C" __attribute__((visibility("default")))
#endif

// Makes a declared function a second name of `function`, which the same file defines. Where `off_t` has 64 bits, glibc
// has functions with "64" in their names as second names, too.
#define TWIN_ALIAS_OF(function) __attribute__((alias(#function)))

namespace twin {

static_assert(sizeof(off_t) == sizeof(off64_t));

// Returns the original function. Functions are looked up on first use, because other libraries call them before this
// library's constructor has run.
template <class Function>
Function* next_function(const char* name) {
#if defined(__x86_64__)
  // glibc keeps old versions of functions for condition variables, affinity and timers, which dlsym() may find first
  for (const char* version : {"GLIBC_2.3.2", "GLIBC_2.3.4", "GLIBC_2.3.3"}) {
    if (void* versioned = dlvsym(RTLD_NEXT, name, version)) return reinterpret_cast<Function*>(versioned);
  }
#endif
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace twin

// Evaluates to the original `function`, with its own type.
#define TWIN_REAL(function)                                                            \
  ([] {                                                                                \
    static auto* const found = ::twin::next_function<decltype(::function)>(#function); \
    return found;                                                                      \
  }())
