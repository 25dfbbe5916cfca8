// Runs a real Linux kernel in virtual time on a simulated drive. `twin linux` starts this program with a plan (plan.h).
// The program has the exit status and the output of the command in the guest.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "drive/file_recorder.h"
#include "drive/parameters.h"
#include "linux/block_device.h"
#include "linux/calendar.h"
#include "linux/contents.h"
#include "linux/guest.h"
#include "linux/plan.h"
#include "linux/program_watch.h"
#include "linux/requests.h"
#include "linux/wire.h"
#include "scsi/apply_mode_pages.h"
#include "scsi/scsi_target.h"

namespace twin {
namespace {

// The exit statuses of timeout(1) and env(1). Commands seldom use them, so they distinguish a failure of this program
// from a failure of the command.
constexpr int kBadInput = 2;
constexpr int kWallLimit = 124;
constexpr int kFailed = 125;

struct Failure final : std::runtime_error {
  Failure(int its_status, const std::string& message) : std::runtime_error(message), status(its_status) {}

  int status;
};

// Copies a growing file of the guest, with the standard output or error of the command, to a descriptor.
class Relay {
 public:
  Relay(const std::string& path, int to) : path_(path), to_(to) {}
  ~Relay() {
    if (from_ >= 0) close(from_);
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  void pump() {
    // O_NOFOLLOW: the guest creates the file, and could put a link in its place
    if (from_ < 0) from_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char piece[65536];
    for (ssize_t got; from_ >= 0 && (got = read(from_, piece, sizeof piece)) > 0;) {
      for (ssize_t done = 0; done < got;) {
        const ssize_t written = write(to_, piece + done, static_cast<std::size_t>(got - done));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        done += written;
      }
    }
  }

 private:
  std::string path_;
  int to_;
  int from_ = -1;
};

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int listen_at(const std::string& path, const Plan& plan) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) throw std::runtime_error(path + ": too long for a socket");
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listening < 0 || bind(listening, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(listening, 1) != 0 ||
      (geteuid() == 0 && chown(path.c_str(), static_cast<uid_t>(plan.user), static_cast<gid_t>(plan.group)) != 0)) {
    throw std::runtime_error(path + ": " + std::strerror(errno));
  }
  return listening;
}

void set_mode(const std::string& path, mode_t mode) {
  if (chmod(path.c_str(), mode) != 0) throw std::runtime_error(path + ": " + std::strerror(errno));
}

void copy_into(const Workplace& workplace, const std::string& from, const char* name) {
  std::filesystem::copy_file(from, workplace.path(name));
  set_mode(workplace.path(name), 0755);
}

class Machine {
 public:
  explicit Machine(const Plan& plan)
      : plan_(plan),
        parameters_(drive_parameters(plan)),
        requests_(parameters_, static_cast<std::uint64_t>(plan.seed)),
        contents_(requests_.drive().size_bytes(), plan.image),
        workplace_(plan) {
    if (!plan.trace.empty()) trace_.emplace(plan.trace);
    if (trace_ && plan.trace_all != 0) requests_.record_to(*trace_);
    if (!plan.counters.empty()) recorder_.emplace(plan.counters.c_str());
  }

  int run() {
    copy_into(workplace_, plan_.init, "init");
    copy_into(workplace_, plan_.library, "library.so");
    // recordings without charges keep their bytes
    if (plan_.charges()) copy_into(workplace_, plan_.program_library, "program.so");
    std::ofstream(workplace_.path("job"), std::ios::binary) << plan_.guest;
    // if root runs this program, the guest runs as another user; the umask may forbid reading
    set_mode(workplace_.path("job"), 0644);
    if (!plan_.folder.empty()) std::filesystem::create_symlink(plan_.folder, workplace_.path("folder"));
    const int time_listener = listen_at(workplace_.path("time"), plan_);
    const int drive_listener = listen_at(workplace_.path("drive"), plan_);
    stay_on_one_processor();
    guest_ = start_guest(plan_, workplace_);
    end_on_signals(guest_, plan_.wall_limit_s);
    try {
      serve(time_listener, drive_listener);
    } catch (const GuestGone&) {  // NOLINT(bugprone-empty-catch): the guest has powered off or crashed
    } catch (const Failure&) {
      pump();
      throw;
    }
    int status = 0;
    while (waitpid(guest_, &status, 0) < 0 && errno == EINTR) {
    }
    alarm(0);
    pump();
    if (trace_) trace_->finish();
    if (recorder_ && !recorder_->flush()) throw std::runtime_error(plan_.counters + ": cannot be written");
    const int result = outcome();
    summarise();
    return result;
  }

 private:
  static Parameters drive_parameters(const Plan& plan) {
    Parameters parameters = parse_parameters(plan.model);
    apply_mode_pages(ScsiTarget(plan.model, plan.settings), parameters);
    return parameters;
  }

  // Guest and device take turns, and a switch between processors takes longer than most turns.
  static void stay_on_one_processor() {
    const int here = sched_getcpu();
    if (here < 0) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(here), &one);
    sched_setaffinity(0, sizeof one, &one);
  }

  // Waits for the guest to connect and returns the socket. Throws Failure if the kernel ends before.
  int accept_guest(int listener) {
    for (;;) {
      pollfd waiting{listener, POLLIN, 0};
      if (poll(&waiting, 1, 100) > 0) break;
      int status = 0;
      if (waitpid(guest_, &status, WNOHANG) == guest_) throw Failure{kFailed, "the kernel does not start" + console()};
      if (ending_signal() != 0) throw GuestGone{};
    }
    const int connected = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    close(listener);
    return connected;
  }

  void serve(int time_listener, int drive_listener) {
    Calendar calendar(plan_.real_time != 0 ? -1 : accept_guest(time_listener), plan_.time_of_day_s * kSecond);
    while (calendar.is_virtual()) {  // until the guest's kernel has found the drive
      if (calendar.guest_waits()) {
        let_pass(calendar);
        continue;
      }
      pollfd ends[] = {{drive_listener, POLLIN, 0}, {calendar.socket(), POLLIN, 0}};
      if (poll(ends, 2, -1) <= 0) continue;
      if (ends[0].revents != 0) break;
      calendar.serve();
    }
    const BlockDevice::Settings settings{.size_bytes = requests_.drive().size_bytes(),
                                         .discards = parameters_.kind == DriveKind::kSsd,
                                         .volatile_cache = parameters_.caches_writes()};
    BlockDevice device(accept_guest(drive_listener), settings, requests_, contents_, calendar,
                       [this, &calendar] { begin_command(calendar); });
    calendar.see_memory(
        [&device](std::uint64_t address, std::uint64_t size_bytes) { return device.memory(address, size_bytes); });
    ProgramWatch watch(guest_);
    try {
      for (;;) {
        if (calendar.is_virtual()) {
          step(calendar, device, watch);
        } else {
          step_in_real_time(calendar, device);
        }
      }
    } catch (const GuestGone&) {  // NOLINT(bugprone-empty-catch): the guest has powered off or crashed
    }
    work_ = calendar.work();
    forced_ = watch.forced();
  }

  void step_in_real_time(Calendar& calendar, BlockDevice& device) {
    timespec read{};
    clock_gettime(CLOCK_MONOTONIC, &read);
    const Nanoseconds now = read.tv_sec * kSecond + read.tv_nsec;
    const Nanoseconds over = requests_.run(now, done_);
    if (over != kNever) return device.complete(done_);
    calendar.advance_to(now);
    const Nanoseconds wait = std::min(requests_.earliest_completion_ns() - now, 50 * kMillisecond);
    const timespec timeout{wait / kSecond, wait % kSecond};
    pollfd end{device.socket(), POLLIN, 0};
    if (ppoll(&end, 1, &timeout, nullptr) > 0) device.serve();
    pump();
  }

  // Advances the time to the guest's next event and lets the guest run.
  void let_pass(Calendar& calendar) {
    if (calendar.guest_next() == kNever) {
      throw Failure{
          kFailed,
          "the command waits for ever: the guest has no pending event, and the drive has no outstanding request"};
    }
    calendar.advance_to(std::max(calendar.guest_next(), calendar.now()));
    calendar.run_guest(requests_.earliest_completion_ns());
  }

  void step(Calendar& calendar, BlockDevice& device, ProgramWatch& watch) {
    if (calendar.guest_waits()) {
      const Nanoseconds over = requests_.run(calendar.guest_next(), done_);
      if (over == kNever) return let_pass(calendar);
      calendar.advance_to(over);
      return device.complete(done_);
    }
    pollfd ends[] = {{calendar.socket(), POLLIN, 0}, {device.socket(), POLLIN, 0}};
    constexpr int kPatience_ms = 10;
    const int ready = poll(ends, 2, kPatience_ms);
    if (ready <= 0) {
      pump();
      watch.look(calendar);
    } else if (ends[1].revents != 0) {
      device.serve();
    } else {
      calendar.serve();
    }
  }

  void pump() {
    output_.pump();
    errors_.pump();
  }

  // Starts trace, counters and charges when the command begins, after mkfs and mount.
  void begin_command(Calendar& calendar) {
    if (plan_.charges()) calendar.charge(plan_.call_ns, plan_.fault_ns);
    if (trace_ && plan_.trace_all == 0) requests_.record_to(*trace_);
    if (recorder_) {
      requests_.drive().record_to(*recorder_, plan_.interval_ns, static_cast<std::uint64_t>(plan_.interval_bytes));
    }
  }

  // Prints the charges of the guest's programs, and reports to `twin linux` how often the host's clock mattered.
  void summarise() const {
    if (plan_.charges()) {
      std::fprintf(stderr, "twin: charged %llu system calls (%lld ns each) and %llu page faults (%lld ns each)\n",
                   static_cast<unsigned long long>(work_.calls), static_cast<long long>(plan_.call_ns),
                   static_cast<unsigned long long>(work_.faults), static_cast<long long>(plan_.fault_ns));
    }
    if (work_.loops > 0) {
      std::fprintf(stderr, "twin: a program in an endless loop gave way %llu times\n",
                   static_cast<unsigned long long>(work_.loops));
    }
    if (forced_ > 0) {
      std::fprintf(stderr,
                   "twin: warning: this run is not repeatable: a program ran for %lld s of the host's processor time "
                   "without a system call, and had to give way (%llu times)\n",
                   static_cast<long long>(ProgramWatch::kMostProcessorTime / kSecond),
                   static_cast<unsigned long long>(forced_));
    }
    std::ofstream(plan_.summary) << forced_;
  }

  // Returns the last lines of the kernel's console for a message.
  [[nodiscard]] std::string console() const {
    std::string text = text_of(workplace_.path("console"));
    constexpr std::size_t kMost = 2000;
    if (text.size() > kMost) text = "…" + text.substr(text.size() - kMost);
    for (char& each : text) {
      if (static_cast<unsigned char>(each) < 0x20 && each != '\n' && each != '\t') each = '?';
    }
    return text.empty() ? "; it printed nothing" : "; it printed:\n" + text;
  }

  [[nodiscard]] int outcome() const {
    if (ending_signal() == SIGALRM) {
      throw Failure{kWallLimit, "ended after " + std::to_string(plan_.wall_limit_s) +
                                    " s, the wall limit. If the program is only slow, raise --wall-limit"};
    }
    if (ending_signal() != 0) return 128 + ending_signal();
    const std::string report = text_of(workplace_.path("report"));
    std::istringstream words(report);
    std::string kind;
    int status = 0;
    if (words >> kind >> status) {
      if (kind == "exit") return status;
      if (kind == "signal") return 128 + status;
      if (kind == "failed") throw Failure{status, {std::istreambuf_iterator<char>(words >> std::ws), {}}};
    }
    throw Failure{kFailed, "the guest has crashed before the command ended" + console()};
  }

  const Plan& plan_;
  Parameters parameters_;
  Requests requests_;
  Contents contents_;
  std::optional<TraceWriter> trace_;
  std::optional<FileRecorder> recorder_;
  Workplace workplace_;
  Relay output_{workplace_.path("output"), STDOUT_FILENO};
  Relay errors_{workplace_.path("errors"), STDERR_FILENO};
  std::vector<std::uint64_t> done_;
  Calendar::Work work_;
  std::uint64_t forced_ = 0;
  pid_t guest_ = -1;
};

int fail(int status, const char* message) {
  std::fprintf(stderr, "twin: error: %s\n", message);
  return status;
}

int run() {
  try {
    const Plan plan = Plan::read(std::cin);
    return Machine(plan).run();
  } catch (const Failure& failure) {
    return fail(failure.status, failure.what());
  } catch (const std::invalid_argument& error) {
    return fail(kBadInput, error.what());
  } catch (const std::exception& error) {
    return fail(kFailed, error.what());
  }
}

}  // namespace
}  // namespace twin

int main() {
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // `twin linux`, which waits for us, may be killed
  return twin::run();
}
