"""Runs a program in a real Linux kernel on a twin, in virtual time: `twin linux`.

Everything that a run needs is said here, in one plan, and given to the machine (src/twin/linux), which boots the kernel
and serves it its drive and its time.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from iopatterns.base import schedulers, subprocess_env
from iopatterns.base.errors import IoPatternsError
from iopatterns.twin import counters as recorded
from iopatterns.twin import models, state
from iopatterns.twin.error import TwinError
from iopatterns.twin.fio_request import FioCommandLine

# By file system: the program that makes it, quiet and without asking, and Debian's package that has it
MKFS_PROGRAMS = {
    "ext4": (("mkfs.ext4", "-q", "-F"), "e2fsprogs"),
    "ext3": (("mkfs.ext3", "-q", "-F"), "e2fsprogs"),
    "ext2": (("mkfs.ext2", "-q", "-F"), "e2fsprogs"),
    "xfs": (("mkfs.xfs", "-q", "-f"), "xfsprogs"),
    "btrfs": (("mkfs.btrfs", "-q", "-f"), "btrfs-progs"),
    "f2fs": (("mkfs.f2fs", "-q", "-f"), "f2fs-tools"),
}
NO_FILE_SYSTEM = "none"
_MOST_SCHEDULED = 2048  # what nr_requests takes
_MOST_REQUEST_KIB = 2048  # what the drive takes, page by page (src/twin/linux/block_device.cc)
# How much may be waiting in the page cache to be written, of the guest's memory: the shares that are Linux' defaults
_DIRTY_SHARE = 0.2
_DIRTY_BACKGROUND_SHARE = 0.1

GUEST_DRIVE = "/dev/vda"
GUEST_MOUNT = "/mnt/drive"
GUEST_FOLDER = "/mnt/folder"
# With `drop_caches`, who reads it waits until all is on the drive and the page cache is empty (src/twin/linux/init)
DROP_CACHES_FILE = "/mnt/drop-caches"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NOBODY = 65534
_LEAST_MEMORY = 64 << 20
_LEAST_FILE_SYSTEM = 1 << 20
_SECTOR_BYTES = 512
_QUEUE_SETTING = re.compile(r"[a-z0-9_]+=[^\0\n]+")
_QUEUE_DEPTHS = range(1, 129)  # the ring has 256 entries, and a request takes up to two
# Debian's user-mode-linux, for --real-time: its kernel has no time travel, and its driver of the drive is a module
_DEBIANS_KERNEL = Path("/usr/bin/linux.uml")
_DEBIANS_MODULES = Path("/usr/lib/uml/modules")
_DRIVE_MODULE = "*/kernel/drivers/block/virtio_blk.ko"
# What the machine is told under one key; each entry of a list is told by itself
_Told = str | int | Path | list[str]
_KERNEL = Path(__file__).resolve().parents[3] / ".linux" / "linux"


@dataclass(frozen=True)
class LinuxOptions:
    """How a command is run; the defaults are those of `twin linux`."""

    file_system: str = "ext4"
    file_system_bytes: int | None = None
    mkfs_options: str = ""
    mount_options: str = ""
    scheduler: str | None = None
    queue: Sequence[str] = ()
    memory_bytes: int = 512 << 20
    queue_depth: int = 32
    seed: int = 1
    wall_limit_s: int = 600
    trace: Path | None = None
    trace_all: bool = False
    counters: Path | None = None
    interval: str | None = None
    interval_bytes: str | None = None
    keep: Path | None = None
    folder: Path | None = None
    state: Path | None = None
    settings: Sequence[str] = ()
    kernel: Path | None = None
    real_time: bool = False
    drop_caches: bool = False


def run_in_linux(
    model: str, command: Sequence[str], options: LinuxOptions | None = None, **streams: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a program on a twin in a real kernel; returns what `subprocess.run` returns, which takes ``streams``.

    Raises TwinError for bad input and for a kernel that is not there. Status 124: the wall limit; 125: the guest
    failed; 126 and 127: the command cannot be run, or is not there; 128 + N: it was ended by signal N.
    """
    options = options or LinuxOptions()
    plan = _plan(model, command, options)
    machine = state.installed_file("twin_linux_machine")
    with _outputs(options) as files:
        for name, file in files.items():
            plan[name] = f"/proc/self/fd/{file.fileno()}"
        process = subprocess.Popen(
            [machine],
            stdin=subprocess.PIPE,
            env=subprocess_env.child_environment(),
            pass_fds=[file.fileno() for file in files.values()],
            **streams,
        )
        forwarded = _forward_signals(process)
        try:
            output, errors = process.communicate(_records(plan))
        finally:
            for number, handler in forwarded.items():
                signal.signal(number, handler)
    status = process.returncode
    return subprocess.CompletedProcess(list(command), status if status >= 0 else 128 - status, output, errors)


def _forward_signals(process: "subprocess.Popen[Any]") -> dict[int, Any]:
    """Have the machine end the guest at SIGTERM; it gets SIGINT by itself. Returns the handlers that were there."""
    try:
        return {
            signal.SIGTERM: signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number)),
            signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        }
    except ValueError:  # not the main thread
        return {}


def _records(plan: Mapping[str, _Told]) -> bytes:
    """Return the plan as the machine reads it: `key=value`, a zero byte after each."""
    records = []
    for key, value in plan.items():
        records += [f"{key}={each}" for each in (value if isinstance(value, list) else [value])]
    return b"".join(os.fsencode(record) + b"\0" for record in records)


def _plan(model: str, command: Sequence[str], options: LinuxOptions) -> dict[str, _Told]:
    """Return all that the machine is told of a run, as src/twin/linux/machine/main.cc reads it."""
    loaded = models.load_model(model)
    if options.settings:
        loaded = loaded.overridden(options.settings)
    _check(options)
    size_bytes = options.file_system_bytes
    if size_bytes is not None and not _LEAST_FILE_SYSTEM <= size_bytes <= loaded.size_bytes:
        raise TwinError(
            f"--fs-size: {size_bytes} bytes cannot be. Give 1 MiB or more, and no more than the drive has:"
            f" {loaded.size_bytes} bytes."
        )
    kernel = _kernel(options)
    words = _command(command)
    folder = options.state or Path(state.default_state_folder(str(loaded.path)))
    folder.mkdir(parents=True, exist_ok=True)
    is_root = os.geteuid() == 0
    user, group = (_NOBODY, _NOBODY) if is_root else (os.geteuid(), os.getegid())
    return {
        "kernel": kernel.absolute(),
        "real_time": int(options.real_time),
        "init": state.installed_file("twin_linux_init"),
        "library": state.installed_file("libtwin_linux_kernel.so"),
        "model": loaded.text,
        "settings": folder.absolute(),
        "image": options.keep.absolute() if options.keep else "",
        "folder": options.folder.resolve() if options.folder else "",
        "interval_ns": recorded.parse_interval_ns(options.interval),
        "interval_bytes": recorded.parse_interval_bytes(options.interval_bytes),
        "seed": options.seed,
        "memory_bytes": options.memory_bytes,
        "queue_depth": options.queue_depth,
        "trace_all": int(options.trace_all),
        "wall_limit_s": options.wall_limit_s,
        "user": user,
        "group": group,
        "guest.user": user,
        "guest.group": group,
        "guest.file_system": "" if options.file_system == NO_FILE_SYSTEM else options.file_system,
        "guest.mount_options": options.mount_options,
        "guest.folder": int(options.folder is not None),
        "guest.drop_caches": int(options.drop_caches),
        "guest.dirty_bytes": int(_DIRTY_SHARE * options.memory_bytes),
        "guest.dirty_background_bytes": int(_DIRTY_BACKGROUND_SHARE * options.memory_bytes),
        "guest.module": _modules(kernel) if options.real_time else [],
        "guest.setting": _queue_settings(loaded, options),
        "guest.mkfs": _mkfs(options),
        "guest.environment": [f"{name}={value}" for name, value in _environment(options).items()],
        "guest.command": words,
    }


def _kernel(options: LinuxOptions) -> Path:
    """Return the kernel's path. Raises TwinError where it is not there."""
    kernel = options.kernel or (_DEBIANS_KERNEL if options.real_time else _KERNEL)
    if kernel.is_file():
        return kernel
    if options.real_time:
        raise TwinError(f"{kernel}: no kernel there. Debian's package has it: apt-get install user-mode-linux")
    raise TwinError(
        f"{kernel}: no kernel there. `./reproduce.sh linux` builds it, once: some minutes, and it says which packages"
        " it needs."
    )


def _modules(kernel: Path) -> list[str]:
    """Return what a kernel without time travel has to load to find the drive."""
    return [] if kernel != _DEBIANS_KERNEL else [str(path) for path in sorted(_DEBIANS_MODULES.glob(_DRIVE_MODULE))]


def _check(options: LinuxOptions) -> None:
    """Raise TwinError for options that cannot be."""
    if options.memory_bytes < _LEAST_MEMORY:
        raise TwinError(f"--memory: {options.memory_bytes} bytes are too little to boot. Give 64 MiB or more.")
    if options.queue_depth not in _QUEUE_DEPTHS:
        raise TwinError(
            f"--queue-depth: {options.queue_depth} cannot be. Valid is {_QUEUE_DEPTHS[0]} to {_QUEUE_DEPTHS[-1]}."
        )
    of_file_system = (options.mkfs_options, options.mount_options, options.file_system_bytes)
    if options.file_system == NO_FILE_SYSTEM and any(of_file_system):
        raise TwinError("--fs none makes and mounts nothing: leave out --mkfs-options, --mount-options and --fs-size.")
    for setting in options.queue:
        if not _QUEUE_SETTING.fullmatch(setting):
            raise TwinError(
                f"--queue {setting}: is no NAME=VALUE. Give a file of /sys/block/vda/queue and what to write there,"
                " such as wbt_lat_usec=0."
            )
    if options.trace_all and options.trace is None:
        raise TwinError("--trace-all is about the trace: give --trace, too.")
    if options.keep is not None and os.path.lexists(options.keep):
        raise TwinError(f"--keep {options.keep}: is there already. Give a file that is not, or remove it.")
    if options.folder is not None and not options.folder.is_dir():
        raise TwinError(f"--folder {options.folder}: no such folder. Make it first.")
    for path in filter(None, (options.trace, options.counters)):
        recorded.check_table_path(path)


class CommandError(IoPatternsError):
    """The command is not there, or cannot be run."""

    exit_status = 127


def _command(command: Sequence[str]) -> list[str]:
    """Return the command as the guest runs it. Raises TwinError for what cannot be served, CommandError."""
    words = [word.replace("{drive}", GUEST_DRIVE).replace("{folder}", GUEST_FOLDER) for word in command]
    if any("\0" in word for word in words):
        raise TwinError("no word of a command can hold a zero byte.")
    program = shutil.which(words[0]) or shutil.which(words[0], path=_PATH)
    if program is None:
        raise CommandError(f"{words[0]}: no such program, or it may not be run")
    words[0] = str(Path(program).absolute())
    if Path(program).name != "fio":
        return words
    _check_fio(words[1:])
    # fio starts on the drive's file system; its job files lie where it was called
    rest = [str(Path(word).absolute()) if not word.startswith("-") and Path(word).is_file() else word for word in words]
    clock = [] if any("clocksource" in word for word in words) else ["--clocksource=clock_gettime"]
    return [words[0], *clock, *rest[1:]]


def _check_fio(words: Sequence[str]) -> None:
    """Raise TwinError for what would never end, or would read another clock than the guest's."""
    request = FioCommandLine(words, subprocess_env.child_environment())
    for section in request.sections:
        for option, value in section.options:
            if len(option) > len("sqthread") and "sqthread_poll".startswith(option) and value != "0":
                raise TwinError(
                    f"{option} cannot be served: a kernel thread that polls without pause stands still in virtual time."
                    " Leave it out."
                )
            if option == "clocksource" and value == "cpu":
                raise TwinError(
                    "clocksource=cpu cannot be served: it reads the host's processor. Use clocksource=clock_gettime."
                )


def _environment(options: LinuxOptions) -> dict[str, str]:
    home = "/mnt/tmp" if options.file_system == NO_FILE_SYSTEM else GUEST_MOUNT
    fixed = {"PATH": _PATH, "HOME": home, "TMPDIR": "/mnt/tmp", "TERM": "dumb", "TWIN_DRIVE": GUEST_DRIVE}
    return subprocess_env.child_environment({}) | fixed


def _mkfs(options: LinuxOptions) -> list[str]:
    """Return the program that makes the file system, with its options. Raises TwinError where it is not installed."""
    if options.file_system == NO_FILE_SYSTEM:
        return []
    (program, *fixed), package = MKFS_PROGRAMS[options.file_system]
    path = shutil.which(program, path=_PATH)
    if path is None:
        raise TwinError(f"--fs {options.file_system} needs {program}: apt-get install {package}")
    try:
        given = shlex.split(options.mkfs_options)
    except ValueError as error:
        raise TwinError(f"--mkfs-options: {error}") from None
    return [path, *fixed, *given, *_sized(options)]


def _sized(options: LinuxOptions) -> list[str]:
    """Return the drive as mkfs takes it, with the size of the file system where one is asked for."""
    size_bytes = options.file_system_bytes
    if size_bytes is None:
        return [GUEST_DRIVE]
    if options.file_system == "xfs":
        return ["-d", f"size={size_bytes}", GUEST_DRIVE]
    if options.file_system == "btrfs":
        return ["--byte-count", str(size_bytes), GUEST_DRIVE]
    # ext2 to ext4 take KiB, f2fs sectors
    return [GUEST_DRIVE, str(size_bytes // _SECTOR_BYTES) if options.file_system == "f2fs" else f"{size_bytes >> 10}k"]


def _queue_settings(model: models.Model, options: LinuxOptions) -> list[str]:
    """Return what the guest writes into /sys/block/vda/queue, so that its block layer is as the model's."""
    scheduler = options.scheduler or schedulers.modern_equivalent(str(model.values["host.scheduler"]))
    settings = [f"scheduler={scheduler}", f"rotational={int(model.kind == 'hard_disk')}"]
    if scheduler != "none":
        settings.append(f"nr_requests={min(int(model.number('host.nr_requests')), _MOST_SCHEDULED)}")
    kib = int(model.number("host.max_request")) >> 10
    settings.append(f"max_sectors_kb={min(max(4, kib), _MOST_REQUEST_KIB)}")
    return [*settings, *options.queue]


@contextmanager
def _outputs(options: LinuxOptions) -> Iterator[Mapping[str, IO[bytes]]]:
    """Give files in memory, by the plan's names; what the machine has written there is then put where it is wanted."""
    wanted = {"trace": options.trace, "counters": options.counters}
    files = {
        name: os.fdopen(os.memfd_create(f"twin-{name}"), "w+b") for name, path in wanted.items() if path is not None
    }
    try:
        yield files
        for name, file in files.items():
            path = wanted[name]
            assert path is not None
            source = Path(f"/proc/self/fd/{file.fileno()}")
            path.parent.mkdir(parents=True, exist_ok=True)
            if name == "counters":
                recorded.convert_counters(source, path)
            elif path.suffix == ".csv":
                shutil.copyfile(source, path)
            else:
                from iopatterns.twin import traces  # pandas with it, which no other run needs

                traces.convert_trace(source, path, may_be_empty=True)
    finally:
        for file in files.values():
            file.close()


def run_and_exit(model: str, command: Sequence[str], options: LinuxOptions) -> None:
    """Run the command and end this process with its status."""
    sys.stdout.flush()
    sys.exit(run_in_linux(model, command, options).returncode)
