// Processes, their access rights and signals.
#include "linux/guest.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "linux/arguments.h"

namespace twin {
namespace {

std::atomic<pid_t> guest_group = 0;
std::atomic<int> ended_by = 0;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

// Folders for the workplace in order of preference: the guest's memory is a file in it.
constexpr const char* kPlaces[] = {"/dev/shm", "/tmp", "/var/tmp"};
constexpr const char* kPrefix = "twin-linux-";

// Returns the first folder that has room for the guest's memory.
std::string place_for(std::int64_t memory_bytes) {
  for (const char* folder : kPlaces) {
    struct statvfs room = {};
    if (access(folder, W_OK | X_OK) != 0 || statvfs(folder, &room) != 0 || (room.f_flag & ST_NOEXEC) != 0) continue;
    const std::uint64_t free_bytes = std::uint64_t{room.f_bavail} * room.f_frsize;
    if (free_bytes > static_cast<std::uint64_t>(memory_bytes) + (64U << 20)) return folder;
  }
  throw std::runtime_error("no room for the guest's memory of " + std::to_string(memory_bytes >> 20) +
                           " MiB in /dev/shm, /tmp or /var/tmp. Choose a smaller --memory");
}

void remove_folder(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

// Opens a workplace without following links. Returns -1 if it belongs to neither this user nor the guest's user.
int open_own(const std::string& folder, uid_t user) {
  const int opened = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat state = {};
  if (opened >= 0 && fstat(opened, &state) == 0 && (state.st_uid == geteuid() || state.st_uid == user)) return opened;
  if (opened >= 0) close(opened);
  return -1;
}

// Removes the folders that killed runs have left. The machine and the keeper of a run lock its folder as long as one of
// these two processes exists.
void remove_abandoned(uid_t user) {
  for (const char* place : kPlaces) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(place, ignored)) {
      if (!entry.path().filename().string().starts_with(kPrefix)) continue;
      const int opened = open_own(entry.path(), user);
      if (opened < 0) continue;
      if (flock(opened, LOCK_EX | LOCK_NB) == 0) remove_folder(entry.path());
      close(opened);
    }
  }
}

// Creates a workplace and locks it. Returns its path, and in `lock` the descriptor that holds the lock.
std::string create_locked(const std::string& place, int& lock) {
  for (;;) {
    std::string folder = place + "/" + kPrefix + "XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) fail(folder);
    lock = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0 && errno != ENOENT) fail(folder);
    if (lock >= 0 && flock(lock, LOCK_EX) != 0) fail(folder);
    // before the lock was taken, another run may have removed the folder as abandoned
    if (lock >= 0 && std::filesystem::exists(folder)) return folder;
    if (lock >= 0) close(lock);
  }
}

// Runs the keeper; never returns. The other end of `life` is closed when the process that serves the guest has ended.
[[noreturn]] void keep_watch(int life, const std::string& folder) {
  setsid();
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(number, SIG_IGN);
  prctl(PR_SET_NAME, "twin-keeper");
  pid_t group = 0;
  for (;;) {
    const ssize_t got = read(life, &group, sizeof group);
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    break;
  }
  if (group > 0) kill(-group, SIGKILL);
  remove_folder(folder);
  _exit(0);
}

// Reports an error and ends the child process, whose failures the parent cannot catch.
[[noreturn]] void give_up(const char* what) {
  const std::string line = std::string(what) + ": " + std::strerror(errno) + "\n";
  const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  static_cast<void>(written);
  _exit(127);
}

// Becomes the guest's user for ever. Keeps one capability of root, if root has it: to read all files.
void become(uid_t user, gid_t group) {
  // With this bit, a change of user keeps all capabilities, and access(2), by which hostfs asks, heeds them. If the
  // host forbids the bit, setuid() drops all capabilities.
  prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0);
  if (setgroups(0, nullptr) != 0 || setgid(group) != 0 || setuid(user) != 0) give_up("setuid");
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, sets) != 0) give_up("capget");
  const std::uint32_t kept = sets[0].permitted & (1U << CAP_DAC_READ_SEARCH);
  sets[0] = {kept, kept, kept};
  sets[1] = {};
  if (syscall(SYS_capset, &header, sets) != 0) give_up("capset");
  if (kept != 0 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_READ_SEARCH, 0, 0) != 0) give_up("prctl");
}

// Forbids this process to write, except in the folders `writable`. Kernels before 5.13 have no Landlock, so the
// function does nothing there. The guest's kernel, which mounts the host's files read-only, is then the only
// protection.
void hold_to(const std::vector<std::string>& writable) {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) return;
  std::uint64_t writes = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                         LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR |
                         LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                         LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
  if (version >= 2) writes |= 1ULL << 13;  // LANDLOCK_ACCESS_FS_REFER
  if (version >= 3) writes |= 1ULL << 14;  // LANDLOCK_ACCESS_FS_TRUNCATE
  landlock_ruleset_attr attributes{};      // newer headers have more members, which stay 0
  attributes.handled_access_fs = writes;
  const auto rules = static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0));
  if (rules < 0) give_up("landlock_create_ruleset");
  for (const std::string& path : writable) {
    const int folder = open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) give_up(path.c_str());
    const landlock_path_beneath_attr rule{writes, folder};
    if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) give_up("landlock_add_rule");
    close(folder);
  }
  if (syscall(SYS_landlock_restrict_self, rules, 0) != 0) give_up("landlock_restrict_self");
  close(rules);
}

void on_signal(int number) {
  const int before = errno;
  ended_by = number;
  if (guest_group > 0) kill(-guest_group, SIGKILL);
  errno = before;
}

// Ends the guest's process group after its kernel has ended: helpers and processes of the guest keep our sockets open.
void on_child(int) {
  const int before = errno;
  siginfo_t ended{};
  if (guest_group > 0 && waitid(P_PID, static_cast<id_t>(guest_group), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      ended.si_pid == guest_group) {
    kill(-guest_group, SIGKILL);
  }
  errno = before;
}

}  // namespace

Workplace::Workplace(const Plan& plan) {
  const auto user = static_cast<uid_t>(plan.user);
  const auto group = static_cast<gid_t>(plan.group);
  remove_abandoned(user);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  folder_ = create_locked(place_for(plan.memory_bytes), lock_);
  keeper_ = fork();
  if (keeper_ == 0) {
    close(ends[1]);
    keep_watch(ends[0], folder_);
  }
  close(ends[0]);
  life_ = ends[1];
  if (keeper_ < 0) fail("fork");
  if (geteuid() == 0 && chown(folder_.c_str(), user, group) != 0) fail(folder_);
}

Workplace::~Workplace() {
  close(life_);
  int status = -1;
  while (waitpid(keeper_, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) remove_folder(folder_);  // the keeper was killed
  close(lock_);
}

void Workplace::guard(pid_t group) const {
  if (write(life_, &group, sizeof group) != sizeof group) fail("pipe");
}

pid_t start_guest(const Plan& plan, const Workplace& workplace) {
  const int kernel = open(plan.kernel.c_str(), O_RDONLY | O_CLOEXEC);
  if (kernel < 0) fail(plan.kernel);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child > 0) {
    close(kernel);
    setpgid(child, child);
    workplace.guard(child);
    return child;
  }
  setpgid(0, 0);
  if (chdir(workplace.folder().c_str()) != 0) give_up("chdir");
  const int console = open("console", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (console < 0 || nothing < 0) give_up("console");
  dup2(nothing, STDIN_FILENO);
  dup2(console, STDOUT_FILENO);
  dup2(console, STDERR_FILENO);
  if (geteuid() == 0) {
    if (fchown(console, static_cast<uid_t>(plan.user), static_cast<gid_t>(plan.group)) != 0) give_up("fchown");
    become(static_cast<uid_t>(plan.user), static_cast<gid_t>(plan.group));
  }
  // after setuid(), which resets the parent-death signal
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) give_up("prctl");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) give_up("prctl");
  // with address randomisation, the size of the guest's memory would differ from run to run
  if (personality(ADDR_NO_RANDOMIZE) < 0) {
    give_up("address randomisation cannot be switched off (a container may forbid this)");
  }
  umask(022);
  signal(SIGPIPE, SIG_DFL);
  std::vector<std::string> writable{workplace.folder()};
  if (!plan.folder.empty()) writable.push_back(plan.folder);
  hold_to(writable);

  // The kernel mixes its command line into its random numbers, so the command line must be the same in every run.
  std::vector<std::string> words = {
      "linux",
      "mem=" + std::to_string(plan.memory_bytes >> 10) + "k",
      "virtio_uml.device=drive:2",
      "virtio_blk.queue_depth=" + std::to_string(plan.queue_depth),
      "umid=guest",
      "uml_dir=uml",
      "root=none",
      "rootfstype=hostfs",
      "ro",
      "init=/proc/self/cwd/init",
      "con=null",
      "con0=null,fd:1",
      "ssl=null",
      "panic=-1",
      "devtmpfs.mount=0",
      "quiet",
  };
  if (plan.real_time == 0) words.push_back("time-travel=ext:1:time");
  std::vector<std::string> environment = {
      "PATH=/usr/bin:/bin",
      "HOME=/",
      "TMPDIR=" + workplace.folder(),
      "LD_PRELOAD=./library.so",
      "TWIN_SEED=" + std::to_string(plan.seed),
  };
  if (plan.charges()) environment.push_back("TWIN_TRAP_COUNTER=1");
  fexecve(kernel, pointers(words).data(), pointers(environment).data());
  give_up("the kernel cannot be run");
}

void end_on_signals(pid_t group, std::int64_t wall_limit_s) {
  guest_group = group;
  struct sigaction action = {};
  action.sa_handler = &on_child;
  sigaction(SIGCHLD, &action, nullptr);
  action.sa_handler = &on_signal;
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGALRM}) sigaction(number, &action, nullptr);
  alarm(static_cast<unsigned>(wall_limit_s));
  on_child(SIGCHLD);  // the kernel may have ended before the handler was installed
}

int ending_signal() { return ended_by; }

}  // namespace twin
