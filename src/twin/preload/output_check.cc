// The streams of stdio: an error is recorded when a stream is closed, or when the program exits.
#include "preload/output_check.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <unistd.h>

#include <string>

#include "preload/process.h"
#include "preload/real.h"

namespace twin {
namespace {

// The first file that the program could not write completely, with the reason; empty if there is none. Never destroyed,
// because check_output() runs after the destructors.
std::string& incomplete = *new std::string;
bool stdout_is_open = true;

// Returns the variable with the stream to which fio writes its results; nullptr in other programs.
FILE** result_stream() {
  static auto* const found = is_fio() ? static_cast<FILE**>(dlsym(RTLD_DEFAULT, "f_out")) : nullptr;
  return found;
}

// Writes what stdio has buffered for a stream, and records whether any data of the stream were lost.
void check_stream(FILE* stream) {
  errno = 0;
  const bool flushed = fflush(stream) == 0;
  const int error = flushed ? 0 : errno;
  if ((flushed && ferror(stream) == 0) || !incomplete.empty()) return;
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fileno(stream));
  const ssize_t size = readlink(link.c_str(), path, sizeof path - 1);
  path[size > 0 ? size : 0] = '\0';
  incomplete = printable(path) + ": not written completely";
  if (error != 0) incomplete += std::string(" (") + strerror(error) + ")";
}

// Checks a stream of the program that is about to be closed.
void check_before_close(FILE* stream) {
  if (self == nullptr || forked() || stream == nullptr || __fwritable(stream) == 0) return;
  const int error = errno;
  check_stream(stream);
  errno = error;
  if (stream == stdout) stdout_is_open = false;
  if (FILE** const result = result_stream(); result != nullptr && *result == stream) *result = stdout;
}

}  // namespace

void set_up_output_check() {
  signal(SIGXFSZ, SIG_IGN);
  // Python ignores this signal, and so would the program. Writing to a closed pipe must end it as it does elsewhere.
  signal(SIGPIPE, SIG_DFL);
}

void check_output() {
  if (FILE** const result = result_stream(); result != nullptr && *result != nullptr && *result != stdout) {
    check_stream(*result);
  }
  if (stdout_is_open) check_stream(stdout);
  if (!incomplete.empty()) fail(incomplete + ". Free space, or raise the limit for the size of files (ulimit -f)");
}

}  // namespace twin

TWIN_EXPORT int fclose(FILE* stream) {
  twin::check_before_close(stream);
  return TWIN_REAL(fclose)(stream);
}
