// The original functions: those that the program would call if this library did not interpose them.
#pragma once

#include <dlfcn.h>

// The native tests link these functions into the program and hide them, because a sanitizer's library calls mmap() and
// others before it is ready for instrumented code.
#ifdef TWIN_HIDDEN
#define TWIN_EXPORT extern "C" __attribute__((visibility("hidden")))
#else
#define TWIN_EXPORT extern "C" __attribute__((visibility("default")))
#endif

namespace twin {

// Looked up on first use, because other libraries call these functions before this one's constructor has run.
template <class Function>
Function* next_function(const char* name) {
#if defined(__x86_64__)
  // glibc keeps old versions of the condition variables' functions, which dlsym() may find first
  if (void* versioned = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2")) return reinterpret_cast<Function*>(versioned);
#endif
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace twin

// The original `function`, with its own type.
#define TWIN_REAL(function)                                                            \
  ([] {                                                                                \
    static auto* const found = ::twin::next_function<decltype(::function)>(#function); \
    return found;                                                                      \
  }())
