// libaio, with its stable binary interface. io_uring and POSIX AIO are refused.
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <mqueue.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/slot_pool.h"
#include "preload/drive_file.h"
#include "preload/process.h"
#include "preload/real.h"

namespace {

// An outstanding operation.
struct Slot {
  std::uint32_t number = 0;  // in the pool
  iocb* block = nullptr;
  std::int64_t result = 0;
  twin::Nanoseconds done_ns = twin::kNever;
  std::uint64_t order = 0;  // of submission
};

// The object to which io_context_t points. It begins like the kernel's ring (struct aio_ring), but without the ring's
// magic number, so that programs do not read completions from it directly.
struct Context {
  std::uint32_t ring[8] = {};
  std::uint32_t room = 0;
  std::uint64_t submitted = 0;
  twin::SlotPool<Slot> slots;
  std::vector<Slot*> outstanding;
  int empty_polls = 0;                // consecutive calls of io_getevents() that found nothing
  twin::Nanoseconds polled_ns = 0;    // the time at which the last of these calls ended
  std::uint64_t polled_readings = 0;  // the number of clock readings by the thread at that time
};

// The duration of a call that finds nothing: a system call. It must not be 0, because time must pass in a loop that
// polls.
constexpr twin::Nanoseconds kEmptyPoll = 500;
// After this number of consecutive empty polls, the thread is assumed to poll until it finds something.
constexpr int kEmptyPolls = 4;

// All contexts. Any other handle is invalid.
std::vector<Context*> contexts;

Context* find(void* handle) {
  const auto found = std::find(contexts.begin(), contexts.end(), static_cast<Context*>(handle));
  return found == contexts.end() ? nullptr : *found;
}

int set_up(unsigned room, void** handle) {
  if (room == 0) return -EINVAL;
  auto* context = new Context;
  context->room = room;
  contexts.push_back(context);
  *handle = context;
  return 0;
}

// Waits in virtual time until the operation is complete.
void wait_for(const Slot& slot, const Context& context) {
  while (slot.done_ns == twin::kNever) twin::timeline().wait(*twin::self, &context, twin::kNever);
}

int destroy(void* handle) {
  Context* context = find(handle);
  if (context == nullptr) return -EINVAL;
  while (!context->outstanding.empty()) {  // the kernel waits for outstanding operations, too
    wait_for(*context->outstanding.back(), *context);
    context->outstanding.pop_back();
  }
  contexts.erase(std::find(contexts.begin(), contexts.end(), context));
  delete context;
  return 0;
}

// Starts one operation. Returns 0, or -errno as io_submit() does for the first operation.
int start(Context& context, iocb* block) {
  const int descriptor = static_cast<int>(block->aio_fildes);
  if (!twin::is_drive(descriptor)) {
    twin::refuse("libaio on a file that is not the drive", "only the drive is simulated", "Give {drive} as the file");
  }
  if (context.outstanding.size() >= context.room) return -EAGAIN;
  iovec single{reinterpret_cast<void*>(block->aio_buf), static_cast<std::size_t>(block->aio_nbytes)};
  const iovec* parts = &single;
  int count = 1;
  twin::Operation operation = twin::Operation::kRead;
  switch (block->aio_lio_opcode) {
    case IOCB_CMD_PREADV:
    case IOCB_CMD_PWRITEV:
      parts = reinterpret_cast<const iovec*>(block->aio_buf);
      count = static_cast<int>(block->aio_nbytes);
      [[fallthrough]];
    case IOCB_CMD_PREAD:
    case IOCB_CMD_PWRITE:
      if (block->aio_lio_opcode == IOCB_CMD_PWRITE || block->aio_lio_opcode == IOCB_CMD_PWRITEV)
        operation = twin::Operation::kWrite;
      break;
    case IOCB_CMD_FSYNC:
    case IOCB_CMD_FDSYNC:
    case IOCB_CMD_NOOP:
      operation = twin::Operation::kFlush;
      break;
    default:
      return -EINVAL;
  }
  const bool flushes = operation == twin::Operation::kFlush;
  twin::Request request;
  ssize_t size = 0;
  if (flushes) {
    request = {operation, twin::job_number(), 0, 0};
  } else {
    size = twin::check_transfer(operation, parts, count, block->aio_offset, twin::flags_of(descriptor));
    if (size < 0) return static_cast<int>(size);
    request = twin::sectors(operation, static_cast<std::uint64_t>(block->aio_offset), static_cast<std::uint64_t>(size));
    // moves the data now, because operations that overlap in time have no guaranteed order
    twin::move_data(operation, parts, count, block->aio_offset, static_cast<std::uint64_t>(size));
  }
  const std::uint32_t number = context.slots.take({});
  Slot* slot = &context.slots[number];
  *slot = {number, block, size, twin::kNever, context.submitted++};
  context.outstanding.push_back(slot);
  if (flushes ? !twin::drive_parameters().caches_writes() : size == 0) {
    slot->done_ns = twin::self->now();  // nothing to do: the write cache is off, or the offset is the end of the drive
  } else {
    twin::submit(request, &context, &slot->done_ns);
    if (twin::drive().blocking_submit()) {
      wait_for(*slot, context);
      twin::spend(twin::drive().wakeup_cost_ns());
    }
  }
  return 0;
}

int submit(void* handle, long count, iocb** iocbs) {
  Context* context = find(handle);
  if (context == nullptr) return -EINVAL;
  for (long i = 0; i < count; ++i) {
    if (const int error = start(*context, iocbs[i]); error != 0) return i > 0 ? static_cast<int>(i) : error;
  }
  return static_cast<int>(count);
}

// Removes and returns the operation that completed first; nullptr if no operation has completed by now.
Slot* take_done(Context& context) {
  std::vector<Slot*>& all = context.outstanding;
  const auto first = std::min_element(all.begin(), all.end(), [](const Slot* a, const Slot* b) {
    return std::tie(a->done_ns, a->order) < std::tie(b->done_ns, b->order);
  });
  if (first == all.end() || (*first)->done_ns > twin::self->now()) return nullptr;
  Slot* slot = *first;
  *first = all.back();
  all.pop_back();
  return slot;
}

// Returns the number of operations that have completed and are not taken yet.
std::size_t completed(const Context& context) {
  return static_cast<std::size_t>(std::count_if(context.outstanding.begin(), context.outstanding.end(),
                                                [](const Slot* slot) { return slot->done_ns != twin::kNever; }));
}

// If a thread does nothing but poll, advances its time to the first poll that finds something. The polls before are all
// alike, and each would require a turn of every other thread.
void skip_empty_polls(Context& context) {
  // a thread that reads the clock between its polls may stop polling at a certain time
  const bool again =
      twin::self->now() == context.polled_ns && twin::self->clock_readings.all == context.polled_readings;
  if (!again) context.empty_polls = 0;
  if (context.empty_polls < kEmptyPolls || context.outstanding.empty()) return;
  const twin::Nanoseconds begin = twin::self->now();
  while (completed(context) == 0) twin::timeline().wait(*twin::self, &context, twin::kNever);
  const twin::Nanoseconds waited = twin::self->now() - begin;
  twin::self->cpu_ns += waited;
  twin::spend((kEmptyPoll - waited % kEmptyPoll) % kEmptyPoll);
}

int get_events(void* handle, long least, long most, io_event* events, const timespec* timeout) {
  Context* context = find(handle);
  if (context == nullptr || least < 0 || most < least) return -EINVAL;
  const twin::Nanoseconds until =
      timeout == nullptr ? twin::kNever : twin::self->now() + timeout->tv_sec * twin::kSecond + timeout->tv_nsec;
  const auto wanted = static_cast<std::size_t>(least);  // other threads may still submit some of them
  bool waited = false;
  if (wanted == 0 || until <= twin::self->now()) {
    skip_empty_polls(*context);
  } else {
    // like the kernel, wakes the thread once: when all wanted operations are complete, or its time is over
    bool interrupted = false;
    while (completed(*context) < wanted && twin::self->now() < until && !interrupted) {
      interrupted = twin::wait_interruptibly(context, until) == twin::Wait::kInterrupted;
      waited = true;
    }
    if (interrupted && completed(*context) == 0) return -EINTR;
    if (waited) twin::spend(twin::drive().wakeup_cost_ns());
  }
  long got = 0;
  while (got < most) {
    Slot* slot = take_done(*context);
    if (slot == nullptr) break;
    twin::spend(twin::drive().reap_cost_ns());
    events[got++] = {slot->block->aio_data, reinterpret_cast<std::uint64_t>(slot->block), slot->result, 0};
    context->slots.release(slot->number);
  }
  if (got == 0 && !waited) {
    twin::spend(kEmptyPoll);
    context->polled_ns = twin::self->now();
    context->polled_readings = twin::self->clock_readings.all;
    ++context->empty_polls;
  }
  return static_cast<int>(got);
}

constexpr int kCannotCancel = -EAGAIN;  // as the kernel returns for an operation that has reached the drive

// Returns the control block of a request of POSIX AIO, which is refused on the drive.
template <class Control>
Control* elsewhere(Control* control) {
  if (twin::is_drive(control->aio_fildes)) {
    twin::refuse("POSIX AIO", "its requests are made by threads of the C library", "Use ioengine=libaio");
  }
  return control;
}

}  // namespace

// Returns the result of the original function if there is no drive; -ENOSYS if the program has no libaio.
#define TWIN_WITHOUT_DRIVE(function, ...)                 \
  do {                                                    \
    if (twin::self != nullptr) break;                     \
    auto* const real = TWIN_REAL(function);               \
    return real == nullptr ? -ENOSYS : real(__VA_ARGS__); \
  } while (false)

// The functions of libaio. They return -errno.
TWIN_EXPORT int io_setup(int room, void** handle) {
  TWIN_WITHOUT_DRIVE(io_setup, room, handle);
  return set_up(static_cast<unsigned>(room), handle);
}

TWIN_EXPORT int io_queue_init(int room, void** handle) {
  TWIN_WITHOUT_DRIVE(io_queue_init, room, handle);
  if (room <= 0) return -EINVAL;
  return set_up(static_cast<unsigned>(room), handle);
}

TWIN_EXPORT int io_destroy(void* handle) {
  TWIN_WITHOUT_DRIVE(io_destroy, handle);
  return destroy(handle);
}

TWIN_EXPORT int io_queue_release(void*) TWIN_ALIAS_OF(io_destroy);

TWIN_EXPORT int io_submit(void* handle, long count, void** iocbs) {
  TWIN_WITHOUT_DRIVE(io_submit, handle, count, iocbs);
  return submit(handle, count, reinterpret_cast<iocb**>(iocbs));
}

TWIN_EXPORT int io_getevents(void* handle, long least, long most, void* events, timespec* timeout) {
  TWIN_WITHOUT_DRIVE(io_getevents, handle, least, most, events, timeout);
  return get_events(handle, least, most, static_cast<io_event*>(events), timeout);
}

TWIN_EXPORT int io_pgetevents(void* handle, long least, long most, void* events, timespec* timeout, void* signals) {
  TWIN_WITHOUT_DRIVE(io_pgetevents, handle, least, most, events, timeout, signals);
  return get_events(handle, least, most, static_cast<io_event*>(events), timeout);
}

TWIN_EXPORT int io_cancel(void* handle, void* iocb, void* event) {
  TWIN_WITHOUT_DRIVE(io_cancel, handle, iocb, event);
  return kCannotCancel;
}

namespace {

// Calls a function with the arguments of a system call.
template <class Result, class... Argument, std::size_t... kIndex>
long call_with(Result (*function)(Argument...), const long* arguments, std::index_sequence<kIndex...>) {
  [[maybe_unused]] const auto as = [](auto* type, long value) {
    using Type = std::remove_pointer_t<decltype(type)>;
    if constexpr (std::is_pointer_v<Type>) {
      return reinterpret_cast<Type>(value);
    } else {
      return static_cast<Type>(value);
    }
  };
  return static_cast<long>(function(as(static_cast<Argument*>(nullptr), arguments[kIndex])...));
}

template <class Result, class... Argument>
long call_with(Result (*function)(Argument...), const long* arguments) {
  return call_with(function, arguments, std::index_sequence_for<Argument...>());
}

}  // namespace

// The same calls, calls on the drive and calls about time by number: fio makes some of its calls in this way. They
// return -1 with errno set.
TWIN_EXPORT long syscall(long number, ...) noexcept {
  va_list arguments;
  va_start(arguments, number);
  long a[6];
  for (long& each : a) each = va_arg(arguments, long);
  va_end(arguments);
  if (twin::self == nullptr) return TWIN_REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  int result = 0;
  switch (number) {
    case SYS_io_uring_setup:
      twin::refuse("io_uring", "its requests do not pass through the program's calls", "Use ioengine=libaio");
    case SYS_io_setup:
      result = set_up(static_cast<unsigned>(a[0]), reinterpret_cast<void**>(a[1]));
      break;
    case SYS_io_destroy:
      result = destroy(reinterpret_cast<void*>(a[0]));
      break;
    case SYS_io_submit:
      result = submit(reinterpret_cast<void*>(a[0]), a[1], reinterpret_cast<iocb**>(a[2]));
      break;
    case SYS_io_getevents:
    case SYS_io_pgetevents:
      result = get_events(reinterpret_cast<void*>(a[0]), a[1], a[2], reinterpret_cast<io_event*>(a[3]),
                          reinterpret_cast<const timespec*>(a[4]));
      break;
    case SYS_io_cancel:
      result = kCannotCancel;
      break;
    case SYS_futex:
      return twin::futex(a);
    case SYS_openat:
      return openat(static_cast<int>(a[0]), reinterpret_cast<const char*>(a[1]), static_cast<int>(a[2]), a[3]);
    case SYS_fcntl:
      return fcntl(static_cast<int>(a[0]), static_cast<int>(a[1]), a[2]);
    case SYS_ioctl:
      return ioctl(static_cast<int>(a[0]), static_cast<unsigned long>(a[1]), a[2]);
    case SYS_mmap:
      return reinterpret_cast<long>(mmap(reinterpret_cast<void*>(a[0]), static_cast<std::size_t>(a[1]),
                                         static_cast<int>(a[2]), static_cast<int>(a[3]), static_cast<int>(a[4]), a[5]));
    case SYS_preadv2:  // the kernel has two arguments for the offset; the second is unused on 64 bits
    case SYS_pwritev2:
      a[4] = a[5];
      return number == SYS_preadv2 ? call_with(&preadv2, a) : call_with(&pwritev2, a);
    case SYS_newfstatat:
      return call_with(&fstatat, a);
    case SYS_clock_nanosleep:
      result = -static_cast<int>(call_with(&clock_nanosleep, a));
      break;
#define TWIN_BY_NUMBER(function) \
  case SYS_##function:           \
    return call_with(&(function), a);
      TWIN_BY_NUMBER(close)
      TWIN_BY_NUMBER(copy_file_range)
      TWIN_BY_NUMBER(dup)
      TWIN_BY_NUMBER(dup3)
      TWIN_BY_NUMBER(fallocate)
      TWIN_BY_NUMBER(fdatasync)
      TWIN_BY_NUMBER(fstat)
      TWIN_BY_NUMBER(fsync)
      TWIN_BY_NUMBER(ftruncate)
      TWIN_BY_NUMBER(lseek)
      TWIN_BY_NUMBER(pread64)
      TWIN_BY_NUMBER(preadv)
      TWIN_BY_NUMBER(pwrite64)
      TWIN_BY_NUMBER(pwritev)
      TWIN_BY_NUMBER(read)
      TWIN_BY_NUMBER(readv)
      TWIN_BY_NUMBER(sendfile)
      TWIN_BY_NUMBER(splice)
      TWIN_BY_NUMBER(statx)
      TWIN_BY_NUMBER(syncfs)
      TWIN_BY_NUMBER(sysinfo)
      TWIN_BY_NUMBER(write)
      TWIN_BY_NUMBER(writev)
      TWIN_BY_NUMBER(clock_gettime)
      TWIN_BY_NUMBER(clock_getres)
      TWIN_BY_NUMBER(clock_settime)
      TWIN_BY_NUMBER(clock_adjtime)
      TWIN_BY_NUMBER(adjtimex)
      TWIN_BY_NUMBER(settimeofday)
      TWIN_BY_NUMBER(gettimeofday)
      TWIN_BY_NUMBER(times)
      TWIN_BY_NUMBER(getrusage)
      TWIN_BY_NUMBER(wait4)
      TWIN_BY_NUMBER(nanosleep)
      TWIN_BY_NUMBER(setitimer)
      TWIN_BY_NUMBER(getitimer)
      TWIN_BY_NUMBER(timerfd_create)
      TWIN_BY_NUMBER(timerfd_settime)
      TWIN_BY_NUMBER(timerfd_gettime)
      TWIN_BY_NUMBER(mq_timedreceive)
      TWIN_BY_NUMBER(mq_timedsend)
      TWIN_BY_NUMBER(recvmmsg)
      TWIN_BY_NUMBER(semtimedop)
#ifdef SYS_alarm  // older calls, which newer processors do not have
      TWIN_BY_NUMBER(alarm)
      TWIN_BY_NUMBER(time)
      TWIN_BY_NUMBER(pause)
      TWIN_BY_NUMBER(select)
      TWIN_BY_NUMBER(poll)
      TWIN_BY_NUMBER(epoll_wait)
      TWIN_BY_NUMBER(dup2)
      TWIN_BY_NUMBER(stat)
      TWIN_BY_NUMBER(lstat)
      TWIN_BY_NUMBER(access)
    case SYS_open:
      return open(reinterpret_cast<const char*>(a[0]), static_cast<int>(a[1]), a[2]);
#endif
#undef TWIN_BY_NUMBER
    // timers and signal masks have other types in the kernel than in the C library
    case SYS_timer_create:
    case SYS_timer_settime:
    case SYS_timer_gettime:
    case SYS_timer_getoverrun:
    case SYS_timer_delete:
    case SYS_pselect6:
    case SYS_ppoll:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_rt_sigtimedwait:
    case SYS_rt_sigsuspend:
      twin::refuse("this call about time by its number", "it would use the host's clock",
                   "Call the function of the C library instead of syscall()");
    default:
      return TWIN_REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  }
  if (result >= 0) return result;
  errno = -result;
  return -1;
}

TWIN_EXPORT int aio_read(aiocb* control) noexcept { return TWIN_REAL(aio_read)(elsewhere(control)); }
TWIN_EXPORT int aio_read64(aiocb64* control) noexcept { return TWIN_REAL(aio_read64)(elsewhere(control)); }
TWIN_EXPORT int aio_write(aiocb* control) noexcept { return TWIN_REAL(aio_write)(elsewhere(control)); }
TWIN_EXPORT int aio_write64(aiocb64* control) noexcept { return TWIN_REAL(aio_write64)(elsewhere(control)); }
