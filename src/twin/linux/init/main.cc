// The guest's first process: prepares the drive, runs the command as an ordinary user, and powers the machine off.
//
// It reads the job, `key=value` records that end with a zero byte, from /proc/self/cwd/job of the host (linux.py writes
// them). It writes the result to the file `report` in the same folder: "exit N", "signal N", or "failed STATUS
// MESSAGE". It is linked statically, so that it starts on every host.
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "linux/arguments.h"

namespace {

constexpr const char* kDrive = "/dev/vda";
constexpr const char* kMount = "/mnt/drive";
constexpr const char* kLibrary = "/mnt/.library.so";  // what the command's programs load
constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;
constexpr int kFailed = 125;

int report_file = -1;

struct Job {
  std::string file_system;  // its name for mount(2); empty for none
  std::string mount_options;
  uid_t user = 0;
  gid_t group = 0;
  bool reads_all = false;  // whether the command may read files whatever their permissions
  bool folder = false;
  bool drop_caches = false;
  std::string dirty_bytes, dirty_background_bytes;
  std::vector<std::string> modules;   // kernel modules to load
  std::vector<std::string> settings;  // `file=value`
  std::vector<std::string> mkfs, environment, command;
};

[[noreturn]] void power_off() {
  sync();
  reboot(RB_POWER_OFF);
  _exit(1);
}

void report(const std::string& text) {
  const ssize_t written = write(report_file, text.data(), text.size());
  static_cast<void>(written);
}

[[noreturn]] void fail(int status, const std::string& what) {
  report("failed " + std::to_string(status) + " " + what);
  power_off();
}

std::string with_reason(const std::string& what) { return what + ": " + std::strerror(errno); }

std::string content_of(const char* path) {
  std::string text;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  char piece[4096];
  for (ssize_t got; file >= 0 && (got = read(file, piece, sizeof piece)) > 0;) {
    text.append(piece, static_cast<std::size_t>(got));
  }
  if (file >= 0) close(file);
  return text;
}

void write_to(const std::string& path, const std::string& value) {
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0 || write(file, value.data(), value.size()) != static_cast<ssize_t>(value.size())) {
    fail(kFailed, with_reason(path + " does not accept '" + value + "'"));
  }
  close(file);
}

void write_new(const char* path, const std::string& text, uid_t user, gid_t group) {
  const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0 || write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      fchown(file, user, group) != 0) {
    fail(kFailed, with_reason(path));
  }
  close(file);
}

// The mount data of hostfs is the folder, and since Linux 6.12 also accepted as `hostfs=FOLDER`.
void mount_host(const char* folder, const char* mount_point) {
  mkdir(mount_point, 0755);
  const std::string named = std::string("hostfs=") + folder;
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV;
  if (mount("none", mount_point, "hostfs", kFlags, named.c_str()) == 0) return;
  if (mount("none", mount_point, "hostfs", kFlags, folder) != 0) _exit(1);  // the host finds no report
}

// The options of mount(8), split into the flags of all file systems and the options of this file system.
struct MountOptions {
  unsigned long flags = 0;  // NOLINT(google-runtime-int): mount(2)'s type
  std::string own;
};

MountOptions mount_options(const std::string& text) {
  constexpr struct {
    std::string_view name;
    unsigned long flag;  // NOLINT(google-runtime-int)
  } kFlags[] = {{"noatime", MS_NOATIME},         {"nodiratime", MS_NODIRATIME}, {"relatime", MS_RELATIME},
                {"strictatime", MS_STRICTATIME}, {"lazytime", MS_LAZYTIME},     {"sync", MS_SYNCHRONOUS},
                {"dirsync", MS_DIRSYNC}};
  MountOptions found;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view name = std::string_view(text).substr(begin, end - begin);
    const auto* flag =
        std::find_if(std::begin(kFlags), std::end(kFlags), [&](const auto& each) { return each.name == name; });
    if (flag != std::end(kFlags)) {
      found.flags |= flag->flag;
    } else {
      found.own.append(found.own.empty() ? "" : ",").append(name);
    }
    begin = end + 1;
  }
  return found;
}

void mount_at(const char* type, const char* mount_point, const char* options) {
  mkdir(mount_point, 0755);
  mount("none", mount_point, type, MS_NOSUID, options);
}

Job read_job() {
  const std::string text = content_of("/mnt/.host/job");
  Job job;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\0', begin);
    const std::string_view record(text.data() + begin, end - begin);
    begin = end + 1;
    const std::string_view key = record.substr(0, record.find('='));
    const std::string value(record.substr(key.size() + 1));
    if (key == "file_system") job.file_system = value;
    if (key == "mount_options") job.mount_options = value;
    if (key == "user") job.user = static_cast<uid_t>(std::strtoul(value.c_str(), nullptr, 10));
    if (key == "group") job.group = static_cast<gid_t>(std::strtoul(value.c_str(), nullptr, 10));
    if (key == "reads_all") job.reads_all = value == "1";
    if (key == "folder") job.folder = value == "1";
    if (key == "drop_caches") job.drop_caches = value == "1";
    if (key == "dirty_bytes") job.dirty_bytes = value;
    if (key == "dirty_background_bytes") job.dirty_background_bytes = value;
    if (key == "module") job.modules.push_back(value);
    if (key == "setting") job.settings.push_back(value);
    if (key == "mkfs") job.mkfs.push_back(value);
    if (key == "environment") job.environment.push_back(value);
    if (key == "command") job.command.push_back(value);
  }
  return job;
}

// Becomes an ordinary user for ever. Returns whether that succeeded. `reads_all` keeps one capability of root: to read
// all files. Capabilities of the ambient set survive execve(2), and access(2) heeds them because of the secure bit. The
// number of system calls is the same for all users.
bool become(const Job& job) {
  if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) != 0 || setgroups(0, nullptr) != 0 ||
      setgid(job.group) != 0 || setuid(job.user) != 0) {
    return false;
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const std::uint32_t kept = job.reads_all ? 1U << CAP_DAC_READ_SEARCH : 0;
  const __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{kept, kept, kept}, {}};
  const int change = job.reads_all ? PR_CAP_AMBIENT_RAISE : PR_CAP_AMBIENT_IS_SET;
  return syscall(SYS_capset, &header, sets) == 0 && prctl(PR_CAP_AMBIENT, change, CAP_DAC_READ_SEARCH, 0, 0) >= 0 &&
         prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

// Runs a program of the job and returns its status as of waitpid(). Programs that prepare the drive run as root.
int run(const Job& job, std::vector<std::string> words, int output, int errors, bool as_root) {
  std::vector<std::string> environment = job.environment;
  std::vector<char*> arguments = twin::pointers(words);
  std::vector<char*> variables = twin::pointers(environment);
  const int problem = open("/mnt/.problem", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const pid_t child = fork();
  if (child == 0) {
    const int nothing = open("/dev/null", O_RDONLY);
    if (nothing < 0 || output < 0 || errors < 0) _exit(127);
    dup2(nothing, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    constexpr rlimit kUnlimited{RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_MEMLOCK, &kUnlimited);  // buffers of io_uring
    if (!as_root && !become(job)) {
      dprintf(problem, "%d", errno);
      _exit(kFailed);
    }
    environ = variables.data();
    execvp(arguments[0], arguments.data());
    dprintf(problem, "%d", errno);
    _exit(kNotFound);
  }
  int status = 0;
  for (;;) {  // this first process also reaps orphaned processes
    const pid_t ended = wait(&status);
    if (ended == child) break;
    if (ended < 0 && errno != EINTR) fail(kFailed, with_reason(words[0]));
  }
  const std::string why = content_of("/mnt/.problem");
  close(problem);
  if (!why.empty()) {
    errno = static_cast<int>(std::strtol(why.c_str(), nullptr, 10));
    fail(errno == ENOENT ? kNotFound : kCannotRun, with_reason(words[0]));
  }
  return status;
}

// Creates a fifo with which the command can drop the kernel's caches: a reader gets the end of the file as soon as all
// data are written to the drive, and pages, inodes and directory entries are dropped. Dropping caches requires root,
// and the command is not root. The fifo exists only on request, because its server process delays all later events by
// 1 us.
void offer_to_drop_caches() {
  constexpr char kRequest[] = "/mnt/drop-caches";
  if (mkfifo(kRequest, 0444) != 0 || chmod(kRequest, 0444) != 0) fail(kFailed, with_reason(kRequest));
  if (fork() != 0) return;
  for (;;) {
    const int reader = open(kRequest, O_WRONLY);  // waits for a reader
    if (reader < 0) _exit(1);
    sync();
    write_to("/proc/sys/vm/drop_caches", "3");
    close(reader);
    const timespec kUntilItHasSeen{0, 1'000'000};
    nanosleep(&kUntilItHasSeen, nullptr);
  }
}

// Reads the drive's serial number: the device recognises the beginning of the command by this read.
void mark() { content_of("/sys/block/vda/serial"); }

void prepare_drive(const Job& job) {
  for (const std::string& setting : job.settings) {
    const std::size_t equals = setting.find('=');
    write_to("/sys/block/vda/queue/" + setting.substr(0, equals), setting.substr(equals + 1));
  }
  if (chown(kDrive, job.user, job.group) != 0) fail(kFailed, with_reason(kDrive));
  if (job.file_system.empty()) return;
  const int log = open("/mnt/.mkfs", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_APPEND, 0600);
  if (run(job, job.mkfs, log, log, true) != 0) {
    fail(kFailed, job.mkfs[0] + " has failed: " + content_of("/mnt/.mkfs"));
  }
  mkdir(kMount, 0755);
  const MountOptions given = mount_options(job.mount_options);
  const char* const options = given.own.empty() ? nullptr : given.own.c_str();
  if (mount(kDrive, kMount, job.file_system.c_str(), MS_NOSUID | MS_NODEV | given.flags, options) != 0) {
    fail(kFailed, with_reason("the drive cannot be mounted as " + job.file_system + " with the options '" +
                              job.mount_options + "'"));
  }
  if (chown(kMount, job.user, job.group) != 0) fail(kFailed, with_reason(kMount));
}

}  // namespace

int main() {
  // without a console the first process starts without the three standard descriptors
  while (open("/", O_RDONLY) < STDERR_FILENO) {
  }
  mount("none", "/mnt", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755");
  mount_host("/proc/self/cwd", "/mnt/.host");
  // O_SYNC: the host sees output as soon as it is written, also if the guest is killed.
  constexpr int kOutput = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_SYNC | O_CLOEXEC;
  report_file = open("/mnt/.host/report", kOutput, 0600);
  const int output = open("/mnt/.host/output", kOutput, 0600);
  const int errors = open("/mnt/.host/errors", kOutput, 0600);
  if (report_file < 0 || output < 0 || errors < 0) power_off();
  Job job = read_job();
  const std::string library = content_of("/mnt/.host/program.so");
  if (!library.empty()) write_new(kLibrary, library, 0, 0);
  if (umount2("/mnt/.host", MNT_DETACH) != 0) fail(kFailed, with_reason("umount"));
  rmdir("/mnt/.host");
  mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr);
  if (job.folder) mount_host("/proc/self/cwd/folder", "/mnt/folder");
  mount_at("proc", "/proc", nullptr);
  mount_at("sysfs", "/sys", nullptr);
  // The defaults are shares of free memory, which depends on the size of the host's libraries.
  write_to("/proc/sys/vm/dirty_bytes", job.dirty_bytes);
  write_to("/proc/sys/vm/dirty_background_bytes", job.dirty_background_bytes);
  mount_at("devtmpfs", "/dev", nullptr);
  mount_at("tmpfs", "/dev/shm", "mode=1777");
  mount_at("devpts", "/dev/pts", "ptmxmode=666");
  mount_at("tmpfs", "/mnt/tmp", "mode=1777");
  for (const char* each : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}) {
    chmod(each, 0666);
  }
  // if the link cannot be created, a program that needs it reports the error
  [[maybe_unused]] const int linked = symlink("/proc/self/fd", "/dev/fd");

  for (const std::string& module : job.modules) {
    const int file = open(module.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0 || syscall(SYS_finit_module, file, "", 0) != 0) fail(kFailed, with_reason(module));
    close(file);
  }
  prepare_drive(job);
  // git refuses repositories of other users. If root runs `twin linux`, the command's user owns no file of the host.
  write_new("/mnt/tmp/.gitconfig", "[safe]\n\tdirectory = *\n", job.user, job.group);
  if (chdir(job.file_system.empty() ? "/mnt/tmp" : kMount) != 0) fail(kFailed, with_reason(kMount));
  if (job.drop_caches) offer_to_drop_caches();
  // the same path in all runs, because the environment is part of what a run depends on
  if (!library.empty()) job.environment.push_back(std::string("LD_PRELOAD=") + kLibrary);
  mark();
  const int status = run(job, job.command, output, errors, false);
  if (chdir("/") != 0) fail(kFailed, with_reason("/"));
  sync();
  if (!job.file_system.empty()) {
    kill(-1, SIGKILL);  // processes that the command has left running
    while (wait(nullptr) > 0) {
    }
    if (umount(kMount) != 0) umount2(kMount, MNT_DETACH);
  }
  report(WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                             : "exit " + std::to_string(WEXITSTATUS(status)));
  power_off();
}
