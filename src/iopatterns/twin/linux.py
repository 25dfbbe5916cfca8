"""Run programs in a Linux guest with a simulated drive (`twin linux`).

The guest is a user-mode Linux kernel in a process of the host. This module collects the settings of a run in a plan, a
mapping of keys to values. The machine, a program of src/twin/linux, reads the plan, boots the kernel, and provides the
drive and the clock of the guest.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from iopatterns.base import schedulers, subprocess_env
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.ownership import OutputFile
from iopatterns.twin import counters as recorded
from iopatterns.twin import models, state
from iopatterns.twin.error import TwinError
from iopatterns.twin.fio_command_line import FioCommandLine

# By file system: the command that creates it without output and questions, and its package in Debian
MKFS_PROGRAMS = {
    "ext4": (("mkfs.ext4", "-q", "-F"), "e2fsprogs"),
    "ext3": (("mkfs.ext3", "-q", "-F"), "e2fsprogs"),
    "ext2": (("mkfs.ext2", "-q", "-F"), "e2fsprogs"),
    "xfs": (("mkfs.xfs", "-q", "-f"), "xfsprogs"),
    "btrfs": (("mkfs.btrfs", "-q", "-f"), "btrfs-progs"),
    "f2fs": (("mkfs.f2fs", "-q", "-f"), "f2fs-tools"),
}
NO_FILE_SYSTEM = "none"
_MAX_NR_REQUESTS = 2048  # limit of the kernel
_MAX_REQUEST_KIB = 2048  # limit of the drive (src/twin/linux/block_device.cc)
# Shares of the guest's memory that may hold dirty pages; the defaults of Linux
_DIRTY_SHARE = 0.2
_DIRTY_BACKGROUND_SHARE = 0.1

GUEST_DRIVE = "/dev/vda"
GUEST_MOUNT = "/mnt/drive"
GUEST_FOLDER = "/mnt/folder"
# A read of this file returns when all data are on the drive and the page cache is empty (src/twin/linux/init)
DROP_CACHES_FILE = "/mnt/drop-caches"
# Where the guest looks for programs
GUEST_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NOBODY = 65534
_GIT_CONFIG = "/mnt/tmp/.gitconfig"  # src/twin/linux/init writes it
_MIN_MEMORY_BYTES = 64 << 20
_MIN_FILE_SYSTEM_BYTES = 1 << 20
_SECTOR_BYTES = 512
_QUEUE_SETTING = re.compile(r"[a-z0-9_]+=[^\0\n]+")
_MAX_QUEUE_DEPTH = 128  # the ring has 256 entries, and a request needs up to two
# Debian's user-mode-linux, for --real-time: its kernel has no time travel, and its block driver is a module
_DEBIAN_KERNEL = Path("/usr/bin/linux.uml")
_DEBIAN_MODULES = Path("/usr/lib/uml/modules")
_DRIVE_MODULE = "*/kernel/drivers/block/virtio_blk.ko"
_SCHEDULER_MODULES = "*/kernel/block/{scheduler}.ko"  # of schedulers that are not part of the kernel image
# Value of a key of the plan; each entry of a list becomes a record of its own
_PlanValue = str | int | Path | list[str]
_KERNEL = Path(__file__).resolve().parents[3] / ".linux" / "linux"


@dataclass(frozen=True)
class LinuxOptions:
    """Options of `twin linux`, which runs a program in a Linux guest.

    The disk of the guest, /dev/vda, is a simulated drive. By default the guest runs in virtual time.

    Attributes:
        file_system: File system to create on the drive: ext4, ext3, ext2, xfs, btrfs or f2fs; ``none`` for the bare
            drive.
        file_system_bytes: Size of the file system, at least 1 MiB; None for the capacity of the drive.
        mkfs_options: Options for mkfs, separated by spaces.
        mount_options: Options for mount, separated by commas, such as ``discard,noatime``.
        scheduler: I/O scheduler of the guest, such as ``mq-deadline``; None for the scheduler of the model.
        queue: Settings in the guest's /sys/block/vda/queue, as ``NAME=VALUE``: ``["wbt_lat_usec=0"]``.
        memory_bytes: Memory of the guest, at least 64 MiB.
        queue_depth: Largest number of requests that the guest sends to the drive at once, from 1 to 128, and not more
            than the drive takes (``link.queue_slots``); None for as many as the drive takes, up to 128.
        seed: Seed of all random numbers.
        wall_limit_s: Limit of the wall-clock time, in seconds.
        trace: File for a trace of the requests that the drive receives, .parquet or .csv; None to write no file.
        trace_all: Whether the trace includes the requests of mkfs and mount. Requires ``trace``.
        counters: File for the drive's counters over time, .parquet or .csv; None to write no file. Counters are
            statistics of the drive, such as the bytes written.
        interval_ns: Simulated time between two records of the counters, in nanoseconds.
        interval_bytes: Written bytes between two records of the counters; 0 to record by time only.
        keep: File for the content of the drive after the command; None to drop the content.
        overwrite: Whether ``trace``, ``counters`` and ``keep`` may replace existing files.
        folder: Folder of the host in which the command may write; None for no folder. The guest has it at /mnt/folder.
        state: Folder where the drive keeps its settings between runs; None for a folder of the model in the user's
            home.
        settings: Parameters that differ from the model, as ``group.name=value``: ``["flash.read_time=60us"]``.
        kernel: Kernel image; None for the kernel that `./reproduce.sh linux` builds.
        real_time: Whether to use the clock of the host and, unless ``kernel`` is given, the kernel of Debian's
            user-mode-linux. Results are then not repeatable.
        drop_caches: Whether the guest has a file /mnt/drop-caches; a read of this file empties the page cache.
        call_ns: Virtual time of each successful system call of the command, in nanoseconds, besides the time that the
            call waits. 0 for none.
        fault_ns: Virtual time of each page fault of the command, in nanoseconds, besides the time that the fault waits
            for the drive. 0 for none.
        date: Time of day, with a time zone, at which the guest's clock starts.
        virtual_environment: Folder of a virtual environment of Python, whose programs come first in the PATH of the
            command; None for none.
    """

    file_system: str = "ext4"
    file_system_bytes: int | None = None
    mkfs_options: str = ""
    mount_options: str = ""
    scheduler: str | None = None
    queue: Sequence[str] = ()
    memory_bytes: int = 512 << 20
    queue_depth: int | None = None
    seed: int = 1
    wall_limit_s: int = 600
    trace: Path | None = None
    trace_all: bool = False
    counters: Path | None = None
    interval_ns: int = 100_000_000
    interval_bytes: int = 0
    keep: Path | None = None
    overwrite: bool = False
    folder: Path | None = None
    state: Path | None = None
    settings: Sequence[str] = ()
    kernel: Path | None = None
    real_time: bool = False
    drop_caches: bool = False
    call_ns: int = 200
    fault_ns: int = 500
    date: datetime = datetime(2030, 1, 1, tzinfo=UTC)  # later than the modification times of the host's files
    virtual_environment: Path | None = None


def run_in_linux(
    model: str, command: Sequence[str], options: LinuxOptions | None = None, **streams: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a program in a Linux guest; return the completed process.

    The guest is a Linux kernel that runs as a process of this host, by default in virtual time. Its disk, /dev/vda, is
    a simulated drive. The return code is the status of the command, or:

    - 124: The wall-clock limit is reached.
    - 125: The guest fails.
    - 126: The guest cannot run the command.
    - 127: The guest does not find the command.
    - 128 + N: Signal N ends the command.

    Args:
        model: Name of a model of the drive, such as ``px05smb040``, or path of a model file.
        command: Program of this host and its arguments. ``{drive}`` stands for the path of the drive in the guest, and
            ``{folder}`` for the path at which the guest has the folder `LinuxOptions.folder`.
        options: Options of the run; None for the default values.
        **streams: Arguments of `subprocess.Popen`, such as stdout and stderr. The standard input cannot be given.

    Raises:
        TwinError: An argument is not valid, or the kernel or mkfs is not installed.
        OutputError: An output exists or is an input, or the state folder has files that no simulated drive wrote.
        CommandError: The command does not exist on this host or is not executable, so that no guest is started.
        FileNotFoundError: A compiled program of this package is not installed.
    """
    options = options or LinuxOptions()
    drive = models.load_model(model).overridden(options.settings)
    plan = _plan(drive, command, options)
    machine = state.installed_file("twin_linux_machine")
    inputs = [drive.path, Path(str(plan["kernel"]))]
    with _outputs(options, drive, inputs) as files, _image(options, inputs) as image:
        for name, file in files.items():
            plan[name] = f"/proc/self/fd/{file.fileno()}"
        plan["image"] = image or ""
        process = subprocess.Popen(
            [machine],
            stdin=subprocess.PIPE,
            env=subprocess_env.child_environment(),
            pass_fds=[file.fileno() for file in files.values()],
            **streams,
        )
        forwarded = _forward_signals(process)
        try:
            output, errors = process.communicate(_plan_bytes(plan))
        finally:
            for number, handler in forwarded.items():
                signal.signal(number, handler)
    status = process.returncode
    return subprocess.CompletedProcess(list(command), status if status >= 0 else 128 - status, output, errors)


def _forward_signals(process: "subprocess.Popen[Any]") -> dict[int, Any]:
    """Forward SIGTERM to the machine, and ignore SIGINT.

    SIGTERM makes the machine end the guest. SIGINT reaches the machine from the terminal without help.

    Args:
        process: The process of the machine.

    Returns:
        The replaced signal handlers by signal number; empty outside the main thread, where handlers cannot be set.
    """
    try:
        return {
            signal.SIGTERM: signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number)),
            signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        }
    except ValueError:  # not the main thread
        return {}


def _plan_bytes(plan: Mapping[str, _PlanValue]) -> bytes:
    """Return a plan in the form that the machine reads.

    The form is records ``key=value``, each ended by a zero byte. A list becomes one record per element.

    Args:
        plan: The settings of a run by key.
    """
    records = []
    for key, value in plan.items():
        records += [f"{key}={each}" for each in (value if isinstance(value, list) else [value])]
    return b"".join(os.fsencode(record) + b"\0" for record in records)


def _plan(drive: models.Model, command: Sequence[str], options: LinuxOptions) -> dict[str, _PlanValue]:
    """Return the plan of a run: the settings that the machine reads, by key.

    `src/twin/linux/machine/main.cc` reads the keys.

    Args:
        drive: The model of the drive.
        command: Program and arguments.
        options: Options of `twin linux`.

    Raises:
        TwinError: An argument is not valid, or the kernel or a program is not installed.
        CommandError: The command does not exist.
    """
    _check(options)
    size_bytes = options.file_system_bytes
    if size_bytes is not None and not _MIN_FILE_SYSTEM_BYTES <= size_bytes <= drive.size_bytes:
        raise TwinError(
            f"--fs-size: {size_bytes} bytes is not valid. Give 1 MiB or more, and not more than the capacity of the"
            f" drive: {drive.size_bytes} bytes."
        )
    kernel = _kernel_path(options)
    words = _guest_command(command)
    folder = options.state or Path(state.default_state_folder(str(drive.path)))
    state.claim_state_folder(str(folder))
    is_root = os.geteuid() == 0
    user, group = (_NOBODY, _NOBODY) if is_root else (os.geteuid(), os.getegid())
    return {
        "kernel": kernel.absolute(),
        "real_time": int(options.real_time),
        "init": state.installed_file("twin_linux_init"),
        "library": state.installed_file("libtwin_linux_kernel.so"),
        "program_library": state.installed_file("libtwin_linux_program.so"),
        "model": drive.without_block_layer().text,  # the guest has its own
        "settings": folder.absolute(),
        "folder": options.folder.resolve() if options.folder else "",
        "interval_ns": options.interval_ns,
        "interval_bytes": options.interval_bytes,
        "seed": options.seed,
        "memory_bytes": options.memory_bytes,
        "queue_depth": _queue_depth(drive, options),
        "trace_all": int(options.trace_all),
        "wall_limit_s": options.wall_limit_s,
        "call_ns": options.call_ns,
        "fault_ns": options.fault_ns,
        "time_of_day_s": int(options.date.timestamp()),
        "user": user,
        "group": group,
        "guest.user": user,
        "guest.group": group,
        "guest.reads_all": int(is_root),
        "guest.file_system": "" if options.file_system == NO_FILE_SYSTEM else options.file_system,
        "guest.mount_options": options.mount_options,
        "guest.folder": int(options.folder is not None),
        "guest.drop_caches": int(options.drop_caches),
        "guest.dirty_bytes": int(_DIRTY_SHARE * options.memory_bytes),
        "guest.dirty_background_bytes": int(_DIRTY_BACKGROUND_SHARE * options.memory_bytes),
        "guest.module": _modules(drive, options) if kernel == _DEBIAN_KERNEL else [],
        "guest.setting": _queue_settings(drive, options),
        "guest.mkfs": _mkfs(options),
        "guest.environment": [f"{name}={value}" for name, value in _environment(options).items()],
        "guest.command": words,
    }


def _kernel_path(options: LinuxOptions) -> Path:
    """Return the path of the kernel image for a run.

    Raises:
        TwinError: The kernel is not installed.
    """
    kernel = options.kernel or (_DEBIAN_KERNEL if options.real_time else _KERNEL)
    if kernel.is_file():
        return kernel
    if options.real_time:
        raise TwinError(f"{kernel}: no kernel there. Install Debian's package: apt-get install user-mode-linux")
    raise TwinError(f"{kernel}: no kernel there. Build it once with `./reproduce.sh linux`, which takes some minutes.")


def _check(options: LinuxOptions) -> None:
    """Raise TwinError for options that are not valid or contradict each other."""
    if options.memory_bytes < _MIN_MEMORY_BYTES:
        raise TwinError(f"--memory: {options.memory_bytes} bytes are too few to boot. Give 64 MiB or more.")
    only_with_file_system = (options.mkfs_options, options.mount_options, options.file_system_bytes)
    if options.file_system == NO_FILE_SYSTEM and any(only_with_file_system):
        raise TwinError(
            "--fs none creates and mounts nothing: leave out --mkfs-options, --mount-options and --fs-size."
        )
    for setting in options.queue:
        if not _QUEUE_SETTING.fullmatch(setting):
            raise TwinError(
                f"--queue {setting}: not of the form NAME=VALUE. Give the name of a file in /sys/block/vda/queue and"
                " its new content, such as wbt_lat_usec=0."
            )
    if options.trace_all and options.trace is None:
        raise TwinError("--trace-all has no effect without --trace. Give --trace too.")
    if options.folder is not None and not options.folder.is_dir():
        raise TwinError(f"--folder {options.folder}: no such folder. Create it first.")
    for path in filter(None, (options.trace, options.counters)):
        recorded.check_table_path(path)


def _queue_depth(drive: models.Model, options: LinuxOptions) -> int:
    """Return the largest number of requests that the guest sends to the drive at once.

    Raises:
        TwinError: The user asked for more requests than the drive takes, or for none.
    """
    limit = min(_MAX_QUEUE_DEPTH, int(drive.number("link.queue_slots")))
    depth = limit if options.queue_depth is None else options.queue_depth
    if not 1 <= depth <= limit:
        raise TwinError(
            f"--queue-depth: {depth} is not valid. Valid for {drive.name}: 1 to {limit} (its link.queue_slots, and not"
            f" more than {_MAX_QUEUE_DEPTH})."
        )
    return depth


class CommandError(IoPatternsError):
    """Error: the command for a Linux guest does not exist or is not executable.

    Attributes:
        exit_status: Exit status of the command `twin` for this error.
    """

    exit_status = 127


def _guest_command(command: Sequence[str]) -> list[str]:
    """Return a command in the form in which the guest runs it.

    ``{drive}`` and ``{folder}`` are replaced, and the program has an absolute path. For fio, file names in the
    arguments become absolute, and ``--clocksource=clock_gettime`` is added unless the command sets a clock source.

    Args:
        command: Program and arguments, as the user gave them.

    Raises:
        TwinError: The command contains a zero byte, or an option of fio that does not work in virtual time.
        CommandError: The command does not exist.
    """
    words = [word.replace("{drive}", GUEST_DRIVE).replace("{folder}", GUEST_FOLDER) for word in command]
    if any("\0" in word for word in words):
        raise TwinError("the words of a command must not contain a zero byte.")
    program = shutil.which(words[0]) or shutil.which(words[0], path=GUEST_PATH)
    if program is None:
        raise CommandError(f"{words[0]}: no such program, or it is not executable")
    words[0] = str(Path(program).absolute())
    if Path(program).name != "fio":
        return words
    _check_fio(words[1:])
    # fio starts in the file system of the drive, but relative paths of job files refer to the current folder
    rest = [str(Path(word).absolute()) if not word.startswith("-") and Path(word).is_file() else word for word in words]
    clock = [] if any("clocksource" in word for word in words) else ["--clocksource=clock_gettime"]
    return [words[0], *clock, *rest[1:]]


def _check_fio(words: Sequence[str]) -> None:
    """Raise TwinError for options of fio that do not work in virtual time.

    Args:
        words: Arguments of fio; job files among them are checked, too.
    """
    for section in FioCommandLine(words, subprocess_env.child_environment()).sections:
        for option, value in section.options:
            # getopt accepts abbreviations; shorter ones are ambiguous
            if len(option) > len("sqthread") and "sqthread_poll".startswith(option) and value != "0":
                raise TwinError(
                    f"{option} is not supported: virtual time does not advance while a kernel thread polls without"
                    " pause. Leave it out."
                )
            if option == "clocksource" and value == "cpu":
                raise TwinError(
                    "clocksource=cpu is not supported: it reads the host's processor. Use clocksource=clock_gettime."
                )


def _environment(options: LinuxOptions) -> dict[str, str]:
    """Return the environment variables of the command in the guest."""
    home = "/mnt/tmp" if options.file_system == NO_FILE_SYSTEM else GUEST_MOUNT
    fixed = {"PATH": GUEST_PATH, "HOME": home, "TMPDIR": "/mnt/tmp", "TERM": "dumb", "TWIN_DRIVE": GUEST_DRIVE}
    fixed["GIT_CONFIG_GLOBAL"] = _GIT_CONFIG
    if (folder := options.virtual_environment) is not None:
        fixed |= {"VIRTUAL_ENV": str(folder.absolute()), "PATH": f"{folder.absolute()}/bin:{GUEST_PATH}"}
    return subprocess_env.child_environment({}) | fixed


def _mkfs(options: LinuxOptions) -> list[str]:
    """Return the command that creates the file system in the guest.

    The result is empty if there is to be no file system.

    Raises:
        TwinError: The program is not installed, or the option --mkfs-options has an unclosed quotation mark.
    """
    if options.file_system == NO_FILE_SYSTEM:
        return []
    (program, *fixed), package = MKFS_PROGRAMS[options.file_system]
    path = shutil.which(program, path=GUEST_PATH)
    if path is None:
        raise TwinError(f"--fs {options.file_system} needs {program}: apt-get install {package}")
    try:
        given = shlex.split(options.mkfs_options)
    except ValueError as error:
        raise TwinError(f"--mkfs-options: {error}") from None
    return [path, *fixed, *given, *_mkfs_drive(options)]


def _mkfs_drive(options: LinuxOptions) -> list[str]:
    """Return the last arguments of mkfs: the drive, and the size if one is given."""
    size_bytes = options.file_system_bytes
    if size_bytes is None:
        return [GUEST_DRIVE]
    if options.file_system == "xfs":
        return ["-d", f"size={size_bytes}", GUEST_DRIVE]
    if options.file_system == "btrfs":
        return ["--byte-count", str(size_bytes), GUEST_DRIVE]
    # mkfs of ext2 to ext4 expects KiB, mkfs of f2fs sectors
    return [GUEST_DRIVE, str(size_bytes // _SECTOR_BYTES) if options.file_system == "f2fs" else f"{size_bytes >> 10}k"]


def _scheduler(model: models.Model, options: LinuxOptions) -> str:
    """Return the I/O scheduler of the guest."""
    return options.scheduler or schedulers.modern_equivalent(str(model.values["host.scheduler"]))


def _modules(model: models.Model, options: LinuxOptions) -> list[str]:
    """Return the modules of Debian's kernel that the guest loads: for the drive, and for its I/O scheduler."""
    patterns = (_DRIVE_MODULE, _SCHEDULER_MODULES.format(scheduler=_scheduler(model, options)))
    return sorted(str(path) for pattern in patterns for path in _DEBIAN_MODULES.glob(pattern))


def _queue_settings(model: models.Model, options: LinuxOptions) -> list[str]:
    """Return the settings for /sys/block/vda/queue in the guest, as ``name=value``.

    With them, the block layer of the guest has the scheduler and the limits of the model's block layer. The user's
    settings come last.

    Args:
        model: The model of the drive.
        options: Options of `twin linux`.
    """
    scheduler = _scheduler(model, options)
    settings = [f"scheduler={scheduler}", f"rotational={int(model.kind == 'hard_disk')}"]
    if scheduler != "none":
        settings.append(f"nr_requests={min(int(model.number('host.nr_requests')), _MAX_NR_REQUESTS)}")
    kib = int(model.number("host.max_request")) >> 10
    settings.append(f"max_sectors_kb={min(max(4, kib), _MAX_REQUEST_KIB)}")
    return [*settings, *options.queue]


@contextmanager
def _outputs(options: LinuxOptions, drive: models.Model, inputs: Sequence[Path]) -> Iterator[Mapping[str, IO[bytes]]]:
    """Yield files in memory that receive the trace, the counters and the summary of a run.

    On exit, trace and counters are written to the output files that the user named.

    Args:
        options: Options of the run.
        drive: The model of the drive.
        inputs: Files that no output may replace.

    Yields:
        The files by key of the plan: ``summary``; ``trace`` and ``counters``, each only if the user asked for it.
    """
    paths = {"trace": options.trace, "counters": options.counters}
    outputs = {
        name: OutputFile(path, inputs=inputs, overwrite=options.overwrite)
        for name, path in paths.items()
        if path is not None
    }
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(os.fdopen(os.memfd_create(f"twin-{name}"), "w+b"))
            for name in ("summary", *outputs)
        }
        yield files
        for name, output in outputs.items():
            source = Path(f"/proc/self/fd/{files[name].fileno()}")
            with output as temporary:
                if name == "counters":
                    recorded.convert_counters(source, temporary)
                elif output.path.suffix == ".csv":
                    shutil.copyfile(source, temporary)
                else:
                    forced = Path(f"/proc/self/fd/{files['summary'].fileno()}").read_text() or "0"
                    _write_trace(source, temporary, drive, options, repeatable=int(forced) == 0)


def _write_trace(source: Path, output: Path, drive: models.Model, options: LinuxOptions, *, repeatable: bool) -> None:
    """Write a trace as a Parquet file, with the drive on which it was recorded.

    Args:
        source: The CSV file that the machine wrote. Its times are those of the guest's clock.
        output: The Parquet file, which is overwritten.
        drive: The model of the drive.
        options: The options of the run.
        repeatable: Whether the host's clock had no influence on the run.
    """
    import pandas as pd  # takes long

    from iopatterns.twin import traces

    first = pd.read_csv(source, usecols=["time_ns"], nrows=1)["time_ns"]
    start_ns = int(first.iloc[0]) if len(first) else 0
    call_ns, fault_ns = (0, 0) if options.real_time else (options.call_ns, options.fault_ns)
    recorded_on = traces.RecordedDrive(
        drive.name, drive.digest, options.seed, start_ns, call_ns, fault_ns, repeatable and not options.real_time
    )
    traces.write_as_parquet(source, output, recorded_on=recorded_on)


@contextmanager
def _image(options: LinuxOptions, inputs: Sequence[Path]) -> Iterator[Path | None]:
    """Yield the path of an empty file for the content of the drive, or None if the content is dropped.

    On exit, the file gets the name that the user gave, unless the guest failed before it had a drive.

    Args:
        options: Options of the run.
        inputs: Files that the image may not replace.
    """
    if options.keep is None:
        yield None
        return
    image = OutputFile(options.keep, inputs=inputs, overwrite=options.overwrite)
    with image as temporary:
        yield temporary.absolute()
        if not temporary.stat().st_size:
            image.discard()
