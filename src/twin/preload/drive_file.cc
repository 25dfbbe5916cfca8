// The drive's descriptors, its requests, and the file that holds its content with --keep-data.
#include "preload/drive_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "core/slot_pool.h"
#include "drive/file_recorder.h"
#include "preload/process.h"
#include "preload/real.h"
#include "preload/timers.h"
#include "scsi/apply_mode_pages.h"

namespace twin {
namespace {

constexpr int kDescriptors = 65536;

// The state that copies of a descriptor share.
struct OpenFile {
  int flags = 0;
  off_t position = 0;
  int descriptors = 1;  // the number of descriptors that share this state
};

// Indexed by descriptor; nullptr for descriptors of other files.
OpenFile* open_files[kDescriptors];

// An outstanding request.
struct Pending {
  const void* key = nullptr;       // the key for which its thread waits on the timeline
  Nanoseconds* done_ns = nullptr;  // receives the time of completion
  Nanoseconds wake_delay = 0;      // from the completion to the time at which the waiting thread continues
};

// A request that is on its way through the system call and reaches the drive at `when`. Its thread does not have to run
// at that time, which saves two changes of the running thread.
struct Submission {
  Nanoseconds when;
  std::uint64_t order;
  Request request;
  std::uint32_t pending;  // a slot of `all_pending`

  // Orders a heap whose first element is the earliest submission.
  bool operator<(const Submission& other) const { return when != other.when ? when > other.when : order > other.order; }
};

std::vector<Submission> submissions;
std::uint64_t submission_order = 0;

std::unique_ptr<FileRecorder> recorder;
std::unique_ptr<Drive> the_drive;
std::unique_ptr<Parameters> the_parameters;
std::unique_ptr<ScsiTarget> the_target;
// Never destroyed, because threads may run until the process ends. The ticket of a request is its slot.
SlotPool<Pending>& all_pending = *new SlotPool<Pending>;
std::uint32_t jobs = 0;
int content = -1;  // the descriptor of the file of --keep-data

const char* environment(const char* name) {
  const char* value = getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

// Returns the value of an environment variable that `twin run` always sets.
const char* needed(const char* name) {
  const char* value = environment(name);
  if (value == nullptr) fail(std::string("the variable ") + name + " is not set; run programs with `twin run`");
  return value;
}

std::string read_text(const char* path) {
  const int file = TWIN_REAL(open)(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(std::string(path) + ": " + strerror(errno));
  std::string text;
  char piece[8192];
  ssize_t size;
  while ((size = TWIN_REAL(read)(file, piece, sizeof piece)) > 0) text.append(piece, static_cast<std::size_t>(size));
  if (size < 0) fail(std::string(path) + ": " + strerror(errno));
  TWIN_REAL(close)(file);
  return text;
}

// Opens a file of the state folder. A link is not followed, so that a file elsewhere never changes.
int open_own_file(const char* path, int flags) {
  const int file = TWIN_REAL(open)(path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  if (file < 0) fail(std::string(path) + ": " + (errno == ELOOP ? "it is a symbolic link" : strerror(errno)));
  struct stat state;
  if (fstat(file, &state) != 0 || !S_ISREG(state.st_mode) || state.st_nlink != 1) {
    fail(std::string(path) + ": it is not a regular file, or has several hard links. Remove it");
  }
  return file;
}

std::int64_t number(const char* name) {
  const char* value = environment(name);
  return value == nullptr ? 0 : strtoll(value, nullptr, 10);
}

// Calls `make`. Ends the program with the model's path and the error's message if it throws.
template <class Make>
void from_model(Make make) {
  const char* path = needed("TWIN_MODEL");
  try {
    make(path);
  } catch (const std::exception& error) {
    fail(std::string(path) + ": " + error.what());
  }
}

void make_drive() {
  from_model([](const char*) {
    the_drive = std::make_unique<Drive>(drive_parameters(), drive_seed());
    if (const char* path = environment("TWIN_COUNTERS")) {
      recorder = std::make_unique<FileRecorder>(path);
      the_drive->record_to(*recorder, number("TWIN_COUNTERS_INTERVAL_NS"),
                           static_cast<std::uint64_t>(number("TWIN_COUNTERS_INTERVAL_BYTES")));
    }
  });
  if (const char* path = environment("TWIN_KEEP_DATA")) {
    content = open_own_file(path, O_RDWR | O_CREAT);
  }
}

// Whether the jobs of fio read the system's clock. Two variables of fio show this: the clock that fio reads (enum
// fio_cs), and whether a thread on another processor reads the clock for all jobs.
bool fio_reads_clock() {
  const auto* source = static_cast<const int*>(dlsym(RTLD_DEFAULT, "fio_clock_source"));
  const auto* offload = static_cast<const int*>(dlsym(RTLD_DEFAULT, "fio_gtod_offload"));
  constexpr int kProcessorCounter = 3;
  return (source == nullptr || *source != kProcessorCounter) && (offload == nullptr || *offload == 0);
}

}  // namespace

const char* drive_path() {
  static const char* const path = environment("TWIN_DRIVE");
  return path;
}

bool is_drive_path(const char* path) {
  return self != nullptr && path != nullptr && drive_path() != nullptr && strcmp(path, drive_path()) == 0;
}

int open_drive(int flags) {
  const int descriptor = memfd_create("twin", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return -1;
  if (descriptor >= kDescriptors) {
    TWIN_REAL(close)(descriptor);
    errno = EMFILE;
    return -1;
  }
  fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
  if ((flags & O_CLOEXEC) == 0) fcntl(descriptor, F_SETFD, 0);
  open_files[descriptor] = new OpenFile{flags & ~(O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_CLOEXEC)};
  return descriptor;
}

bool is_drive(int descriptor) {
  return self != nullptr && descriptor >= 0 && descriptor < kDescriptors && open_files[descriptor] != nullptr;
}

void forget_descriptor(int descriptor) {
  OpenFile* const file = open_files[descriptor];
  open_files[descriptor] = nullptr;
  if (--file->descriptors == 0) delete file;
}

void copy_descriptor(int from, int to) {
  if (to >= kDescriptors) fail("the program has more than 65536 descriptors open");
  open_files[to] = open_files[from];
  ++open_files[to]->descriptors;
}

int flags_of(int descriptor) { return open_files[descriptor]->flags; }

void set_flags(int descriptor, int flags) {
  constexpr int kChangeable = O_APPEND | O_DIRECT | O_NOATIME | O_NONBLOCK;
  int& current = open_files[descriptor]->flags;
  current = (current & ~kChangeable) | (flags & kChangeable);
}

const Parameters& drive_parameters() {
  if (!the_parameters) {
    from_model([](const char* path) {
      the_parameters = std::make_unique<Parameters>(parse_parameters(read_text(path)));
      apply_mode_pages(scsi_target(), *the_parameters);
    });
  }
  return *the_parameters;
}

ScsiTarget& scsi_target() {
  if (!the_target) {
    from_model(
        [](const char* path) { the_target = std::make_unique<ScsiTarget>(read_text(path), needed("TWIN_STATE")); });
  }
  return *the_target;
}

const NvmeController& nvme_controller() {
  static std::unique_ptr<NvmeController> controller;
  if (!controller) {
    from_model([](const char* path) { controller = std::make_unique<NvmeController>(read_text(path)); });
  }
  return *controller;
}

Drive& drive() {
  if (!the_drive) make_drive();
  return *the_drive;
}

bool drive_in_use() { return the_drive != nullptr; }

bool drive_was_asked() { return submission_order > 0; }

namespace {

// Runs several times for each request, so the compiler must see all of it here.
class Events final : public EventSource {
 public:
  [[nodiscard]] Nanoseconds next_event() const override {
    return std::min({next_of_drive(), next_submission(), next_timer()});
  }

  // Of events at the same time, the drive's own come before a request that reaches it, and both before timers.
  void advance(Nanoseconds until) override {
    const Nanoseconds own = next_of_drive();
    const Nanoseconds submission = next_submission();
    const Nanoseconds timer = next_timer();
    if (timer < own && timer < submission) {
      expire_timers();
    } else if (submission < own) {
      const Submission& first = submissions.front();
      the_drive->submit(first.when, first.request, first.pending);
      std::pop_heap(submissions.begin(), submissions.end());
      submissions.pop_back();
    } else if (const auto completion = the_drive->run(std::min(until, std::min(submission, timer)))) {
      const Pending& pending = all_pending[completion->ticket];
      *pending.done_ns = completion->when_ns;
      timeline().wake_one_at(pending.key, completion->when_ns + pending.wake_delay);
      all_pending.release(static_cast<std::uint32_t>(completion->ticket));
    }
  }

 private:
  static Nanoseconds next_of_drive() { return the_drive ? the_drive->next_event_ns() : kNever; }
  static Nanoseconds next_submission() { return submissions.empty() ? kNever : submissions.front().when; }
};

Events all_events;

}  // namespace

EventSource& events() { return all_events; }

namespace {

// Writes the drive's counters to the file TWIN_TOTALS, one line each: name and value.
void write_totals() {
  const char* path = environment("TWIN_TOTALS");
  if (path == nullptr || !the_drive) return;
  std::string text;
  visit_counters(the_drive->counters(), [&](const char* name, std::uint64_t value) {
    text.append(name).append(" ").append(std::to_string(value)).append("\n");
  });
  write_own_file(path, text);
}

}  // namespace

void write_own_file(const char* path, const std::string& text) {
  const int file = open_own_file(path, O_WRONLY | O_CREAT);
  if (TWIN_REAL(ftruncate)(file, 0) != 0) fail(std::string(path) + ": " + strerror(errno));
  const ssize_t written = TWIN_REAL(write)(file, text.data(), text.size());
  TWIN_REAL(close)(file);
  if (written != static_cast<ssize_t>(text.size()))
    fail(std::string(path) + ": not written in full: is the disk full?");
}

void finish_recording() {
  write_totals();
  if (!recorder) return;
  record_counters(the_drive->counters(), self->now(), *recorder);
  if (!recorder->flush()) fail("the counters could not be written in full: is the disk full?");
}

std::uint32_t job_number() {
  if (self->job < 0) {
    if (forked()) {
      refuse("I/O of a forked process", "its parent has the drive", "Use threads; for fio: --thread=1");
    }
    if (is_fio() && !fio_reads_clock()) {
      refuse("a job that reads no clock of the system", "the processor's counter does not show virtual time",
             "Add --clocksource=clock_gettime, and no gtod_cpu");
    }
    self->job = static_cast<int>(jobs++);
  }
  return static_cast<std::uint32_t>(self->job);
}

namespace {

// Sends a request to the drive, which it reaches `cost` from now.
void send(const Request& request, Nanoseconds cost, const Pending& who) {
  *who.done_ns = kNever;
  submissions.push_back({self->now() + cost, submission_order++, request, all_pending.take(who)});
  std::push_heap(submissions.begin(), submissions.end());
}

}  // namespace

void submit(const Request& request, const void* key, Nanoseconds* done_ns) {
  const Nanoseconds cost = drive().submit_cost_ns(request);
  send(request, cost, {key, done_ns, 0});
  timeline().source_changed(*self);
  spend(cost);
}

void serve(const Request& request) {
  const Nanoseconds before = drive().submit_cost_ns(request);
  const Nanoseconds after = drive().wakeup_cost_ns() + drive().reap_cost_ns();
  Nanoseconds done_ns = kNever;
  send(request, before, {&done_ns, &done_ns, after});
  self->cpu_ns += before + after;
  while (done_ns == kNever) timeline().wait(*self, &done_ns, kNever);
  if (signal_due) [[unlikely]]
    deliver_signals();
}

ssize_t check_transfer(Operation operation, const iovec* parts, int count, off_t offset, int flags) {
  const int access = flags & O_ACCMODE;
  if (access == (operation == Operation::kRead ? O_WRONLY : O_RDONLY)) return -EBADF;
  if (offset < 0) return -EINVAL;
  std::uint64_t size = 0;
  for (int i = 0; i < count; ++i) size += parts[i].iov_len;
  if ((flags & O_DIRECT) != 0) {
    if (static_cast<std::uint64_t>(offset) % kSectorBytes != 0 || size % kSectorBytes != 0) return -EINVAL;
    for (int i = 0; i < count; ++i) {
      if (reinterpret_cast<std::uintptr_t>(parts[i].iov_base) % kSectorBytes != 0) return -EINVAL;
    }
  }
  const std::uint64_t end = drive().size_bytes();
  if (static_cast<std::uint64_t>(offset) >= end) return operation == Operation::kRead || size == 0 ? 0 : -ENOSPC;
  return static_cast<ssize_t>(std::min(size, end - static_cast<std::uint64_t>(offset)));
}

void move_data(Operation operation, const iovec* parts, int count, off_t offset, std::uint64_t size_bytes) {
  for (int i = 0; i < count && size_bytes > 0; ++i) {
    auto* memory = static_cast<char*>(parts[i].iov_base);
    std::uint64_t left = std::min<std::uint64_t>(parts[i].iov_len, size_bytes);
    size_bytes -= left;
    if (operation == Operation::kRead && content < 0) {
      memset(memory, 0, left);
      continue;
    }
    while (left > 0 && content >= 0) {
      const ssize_t moved = operation == Operation::kRead ? TWIN_REAL(pread64)(content, memory, left, offset)
                                                          : TWIN_REAL(pwrite64)(content, memory, left, offset);
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0) fail(std::string("the kept data cannot be accessed: ") + strerror(errno));
      if (moved == 0) {  // beyond the end of the file: never written
        memset(memory, 0, left);
        break;
      }
      memory += moved;
      offset += moved;
      left -= static_cast<std::uint64_t>(moved);
    }
  }
}

Request sectors(Operation operation, std::uint64_t offset_bytes, std::uint64_t size_bytes) {
  const std::uint64_t begin = offset_bytes / kSectorBytes * kSectorBytes;
  const std::uint64_t end = (offset_bytes + size_bytes + kSectorBytes - 1) / kSectorBytes * kSectorBytes;
  return {operation, job_number(), begin, end - begin};
}

ssize_t transfer(int descriptor, Operation operation, const iovec* parts, int count, off_t offset) {
  const ssize_t size = check_transfer(operation, parts, count, offset, flags_of(descriptor));
  if (size < 0) {
    errno = static_cast<int>(-size);
    return -1;
  }
  if (size == 0) return 0;
  const auto size_bytes = static_cast<std::uint64_t>(size);
  serve(sectors(operation, static_cast<std::uint64_t>(offset), size_bytes));
  move_data(operation, parts, count, offset, size_bytes);
  if (operation == Operation::kWrite && (flags_of(descriptor) & (O_DSYNC | O_SYNC)) != 0) flush_drive();
  return size;
}

ssize_t transfer_here(int descriptor, Operation operation, const iovec* parts, int count) {
  OpenFile& file = *open_files[descriptor];
  const ssize_t size = transfer(descriptor, operation, parts, count, file.position);
  if (size > 0) file.position += size;
  return size;
}

off_t seek(int descriptor, off_t offset, int origin) {
  OpenFile& file = *open_files[descriptor];
  off_t base = 0;
  if (origin == SEEK_CUR) base = file.position;
  if (origin == SEEK_END) base = static_cast<off_t>(drive().size_bytes());
  if ((origin != SEEK_SET && origin != SEEK_CUR && origin != SEEK_END) || base + offset < 0) {
    errno = EINVAL;
    return -1;
  }
  return file.position = base + offset;
}

int flush_drive() {
  if (drive_parameters().caches_writes()) serve({Operation::kFlush, job_number(), 0, 0});
  return 0;
}

int discard(std::uint64_t offset_bytes, std::uint64_t size_bytes) {
  const std::uint64_t end = drive().size_bytes();
  if (offset_bytes % kSectorBytes != 0 || size_bytes % kSectorBytes != 0 || offset_bytes > end ||
      size_bytes > end - offset_bytes) {
    errno = EINVAL;
    return -1;
  }
  if (size_bytes == 0) return 0;
  serve({Operation::kDiscard, job_number(), offset_bytes, size_bytes});
  if (content >= 0) {
    TWIN_REAL(fallocate64)(content, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset_bytes),
                           static_cast<off_t>(size_bytes));
  }
  return 0;
}

}  // namespace twin
