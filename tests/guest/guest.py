"""Run a script as root under a real kernel with real drives: Debian's kernel in QEMU's software emulation.

Neither root nor hardware is needed on the host. The guest's root file system is the host's, read through 9p, below a
layer in memory that takes all writes: what is installed here runs there, in the same places, and nothing here changes.
"""

import contextlib
import fcntl
import hashlib
import lzma
import os
import platform
import re
import secrets
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from patience import Limit

PROJECT = Path(__file__).resolve().parents[2]
QEMU = "qemu-system-x86_64"
INIT = Path(__file__).with_name("init.sh")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Loaded before the script starts. A kernel has some of them built in, and some kernels lack some.
MODULES_AT_BOOT = (
    "virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay",
    "virtio_blk", "virtio_scsi", "nvme", "ahci", "sd_mod", "sg",
    "crc32c_generic", "crc32c-intel",
)  # fmt: skip
# There for the script's `modprobe`, or for the kernel when it needs them
MODULES = (
    "scsi_debug", "null_blk", "loop", "zram", "dm-mod", "dm-flakey", "dm-delay", "dm-snapshot", "md-mod", "raid1",
    "ext4", "xfs", "vfat", "nls_ascii", "nls_cp437", "bfq", "kyber-iosched", "mq-deadline", "configfs", "st", "sr_mod",
)  # fmt: skip


class GuestError(Exception):
    """The guest did not do its part: no fact about the script follows from this."""


class GuestUnavailableError(GuestError):
    """There can be no guest on this machine; the message says why and what to do."""


@dataclass(frozen=True)
class Disk:
    """A drive of the guest. The script finds its device in the variable that is the name in capitals."""

    name: str
    bus: Literal["scsi", "sata", "nvme", "virtio"]
    serial: str
    model: str = ""
    size_mb: int = 64

    @property
    def by_id(self) -> str:
        """The name of its link in /dev/disk/by-id."""
        model = self.model.replace(" ", "_")
        return {
            "scsi": f"scsi-SGUEST_{model}_{self.serial}",
            "sata": f"ata-{model}_{self.serial}",
            "nvme": f"nvme-{model}_{self.serial}",
            "virtio": f"virtio-{self.serial}",
        }[self.bus]


def four_disks(size_mb: int = 64) -> tuple[Disk, ...]:
    """Return one drive of each kind. QEMU lets neither NVMe nor virtio drives have another model."""
    return (
        Disk("scsi", "scsi", "S0001", "GUEST SSD", size_mb),
        Disk("sata", "sata", "A0001", "GUEST SATA SSD", size_mb),
        Disk("nvme", "nvme", "N0001", "QEMU NVMe Ctrl", size_mb),
        Disk("virtio", "virtio", "V0001", "", size_mb),
    )


@dataclass(frozen=True)
class Section:
    """What became of one of several pieces of a script."""

    status: int
    output: str
    duration_s: float


class Guest:
    """A machine with drives of its own, off until `run` boots it.

    ``folder`` keeps the drives' images from one boot to the next, and what the last boot wrote on its console.
    ``share`` below it is the guest's /share, for files in and out.
    """

    def __init__(
        self, folder: Path, *, disks: Sequence[Disk] | None = None, memory_mb: int = 1024, processors: int = 1
    ) -> None:
        self.parts = prepare()
        self.folder = folder.resolve()
        self.disks = tuple(four_disks() if disks is None else disks)
        self.memory_mb = memory_mb
        self.processors = processors
        self.share = self.folder / "share"
        self.boot_s = 0.0
        self._boot = self.folder / "boot"
        for needed in (self.folder, self.share, self._boot):
            needed.mkdir(parents=True, exist_ok=True)
        for disk in self.disks:
            if not self.image(disk.name).exists():
                with self.image(disk.name).open("wb") as image:
                    image.truncate(disk.size_mb * 2**20)

    def image(self, name: str) -> Path:
        """Return the file that holds what is on the drive of this name."""
        return self.folder / f"{name}.img"

    def checksums(self, *names: str) -> dict[str, str]:
        """Return the SHA-256 sums of the drives named, or of all."""
        sums = {}
        for name in names or [disk.name for disk in self.disks]:
            with self.image(name).open("rb") as image:
                sums[name] = hashlib.file_digest(image, "sha256").hexdigest()
        return sums

    def run(
        self, script: str, *, timeout_s: float = 120, cut_at: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Boot, run ``script`` with bash as root, power off; standard output and error come as one text.

        The script starts in the project's folder, with PROJECT, PYTHON (the one that runs this), SHARE, and the
        drives' devices in variables. With ``cut_at``, power is cut as soon as that line is printed: memory is lost,
        what the drives were given stays, and the status is -9. Raise TimeoutExpired when ``timeout_s`` is over, boot
        included; it is that of an idle machine, and follows this one's speed. Raise GuestError when the guest ended
        otherwise.
        """
        self._write_boot(script)
        with (self._boot / "qemu.log").open("wb") as log:
            qemu = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            status = self._wait(qemu, Limit(timeout_s), cut_at)
        finally:
            qemu.kill()
            qemu.wait()
        output = self._text("output")
        if status is None:
            raise subprocess.TimeoutExpired(["guest", self._where()], timeout_s, output=output)
        return subprocess.CompletedProcess(["guest"], status, output)

    def run_sections(self, sections: Mapping[str, str], *, timeout_s: float = 120) -> dict[str, Section]:
        """Run several pieces in one boot, each in a bash of its own, and return what became of each."""
        mark = f"section {secrets.token_hex(8)}"
        lines = []
        for name, piece in sections.items():
            lines += ["start=$EPOCHREALTIME", f"bash -c {shlex.quote(piece)}"]
            lines += [f"echo $'\\n'{shlex.quote(mark)} {shlex.quote(name)} $? $start $EPOCHREALTIME"]
        done = self.run("\n".join(lines), timeout_s=timeout_s)
        if done.returncode:
            raise GuestError(f"the script of sections ended with {done.returncode}:\n{done.stdout}")
        found = {}
        for output, name, status, start, end in re.findall(
            rf"(.*?)\n{mark} ([^\n]*) (\d+) ([\d.]+) ([\d.]+)\n", done.stdout, re.DOTALL
        ):
            found[name] = Section(int(status), output, float(end) - float(start))
        return found

    def _write_boot(self, script: str) -> None:
        for old in self._boot.iterdir():
            old.unlink()
        environment = {
            "DM_DISABLE_UDEV": "1",  # or dmsetup waits for it to make the devices' names
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "PATH": f"{Path(sys.executable).parent}:/guest/bin:{SYSTEM_PATH}",
            "PROJECT": str(PROJECT),
            "PYTHON": sys.executable,
            "SHARE": "/share",
        }
        lines = [f"{name}={shlex.quote(value)}\n" for name, value in environment.items()]
        (self._boot / "environment").write_text("".join(lines))
        (self._boot / "script").write_text(script)
        lines = [f"{disk.name.upper()} {disk.serial} {disk.by_id}\n" for disk in self.disks]
        (self._boot / "disks").write_text("".join(lines))

    def _wait(self, qemu: subprocess.Popen[bytes], limit: Limit, cut_at: str | None) -> int | None:
        """Return the script's exit status, -9 when power was cut, or nothing when time was up."""
        while True:
            ended = qemu.poll() is not None  # asked first: what it wrote before it ended is then all there
            if cut_at is not None and cut_at in self._text("output").splitlines():
                return -signal.SIGKILL
            if ended:
                break
            if limit.expired():
                return None
            time.sleep(0.01)
        report = dict(line.partition(" ")[::2] for line in self._text("report").splitlines())
        self.boot_s = float(report.get("booted", 0))
        if "exit" not in report:
            reason = report.get("failed") or f"QEMU ended with {qemu.returncode} before the script did"
            raise GuestError(f"{reason}\n{self._where()}")
        if cut_at is not None:
            raise GuestError(f"the script ended without the line {cut_at!r}:\n{self._text('output')}")
        return int(report["exit"])

    def _text(self, name: str) -> str:
        path = self._boot / name
        return path.read_text(errors="replace") if path.exists() else ""

    def _where(self) -> str:
        """Return what the guest got to, for messages."""
        console = [line for line in self._text("console").splitlines() if line.strip()]
        reached = "the script was running" if "booted" in self._text("report") else "the script had not started"
        return "\n".join([reached, *self._text("qemu.log").splitlines()[-5:], *console[-10:]])

    def _command(self) -> list[str]:
        # Without a parent it is to end as well, when pytest is killed for instance
        command = ["setpriv", "--pdeathsig", "KILL", QEMU, "-nodefaults", "-no-user-config", "-no-reboot"]
        # Hardware virtualisation may hang where it is nested; emulation works everywhere, and one way is tested
        # Without what costs an emulator more than it saves: a fifth level of page tables, checks at each access of the
        # kernel to a program's memory, and wide registers
        processor = "max,-la57,-smap,-smep,-avx,-avx2,-erms"
        command += ["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", processor, "-display", "none"]
        command += ["-m", str(self.memory_mb), "-smp", str(self.processors)]
        command += ["-kernel", str(self.parts.kernel), "-initrd", str(self.parts.initramfs)]
        # What is always at the same addresses is translated once, and not for each process anew
        quick = "tsc=reliable random.trust_cpu=on mitigations=off norandmaps"
        command += ["-append", f"console=ttyS0 quiet panic=-1 {quick}"]
        command += ["-serial", f"file:{self._boot / 'console'}", "-device", "virtio-serial-pci"]
        for name in ("output", "report"):
            command += ["-chardev", f"file,id={name},path={_quoted(self._boot / name)}"]
            command += ["-device", f"virtserialport,chardev={name},name={name}"]
        for tag, path, more in (
            ("host", Path("/"), ",readonly=on"),
            ("boot", self._boot, ",readonly=on"),
            ("share", self.share, ""),
        ):
            common = "security_model=none,multidevs=remap"
            command += ["-virtfs", f"local,path={_quoted(path)},mount_tag={tag},{common}{more}"]
        command += ["-device", "virtio-scsi-pci,id=scsi", "-device", "ahci,id=sata"]
        for number, disk in enumerate(self.disks):
            # "unsafe" spares the host the guest's flushes: the host's cache outlives QEMU, however that ends
            drive = f"if=none,id=drive{number},format=raw,discard=unmap,cache=unsafe"
            command += ["-drive", f"{drive},file={_quoted(self.image(disk.name))}"]
            command += ["-device", f"{_device(disk, number)},drive=drive{number},serial={disk.serial}"]
        return command


def _device(disk: Disk, number: int) -> str:
    return {
        "scsi": f"scsi-hd,bus=scsi.0,vendor=GUEST,product={disk.model},rotation_rate=1",
        "sata": f"ide-hd,bus=sata.{number},model={disk.model},rotation_rate=1",
        "nvme": "nvme",
        "virtio": "virtio-blk-pci",
    }[disk.bus]


def _quoted(path: Path) -> str:
    """Return a path as a value among QEMU's options."""
    return str(path).replace(",", ",,")


def run(
    script: str, *, timeout_s: float = 120, disk_mb: int = 64, cut_at: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a script in a guest with one drive of each kind that is forgotten afterwards (`Guest.run`)."""
    with tempfile.TemporaryDirectory() as folder:
        return Guest(Path(folder), disks=four_disks(disk_mb)).run(script, timeout_s=timeout_s, cut_at=cut_at)


# What guests boot from: made once, and kept in the user's cache


@dataclass(frozen=True)
class Parts:
    """What a guest boots from."""

    kernel: Path
    initramfs: Path


def prepare() -> Parts:
    """Return what a guest boots from, downloaded and built where it is not there; whoever wants it anew deletes it."""
    if platform.machine() != "x86_64":
        raise GuestUnavailableError(f"guests are x86_64, and this machine is {platform.machine()}")
    if shutil.which(QEMU) is None:
        raise GuestUnavailableError(f"{QEMU} is missing; install the package qemu-system-x86")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "iopatterns-guest"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / "lock"):
            packages = cache / "packages"
            if not packages.exists():
                _download(packages)
            return _build(cache, packages)
    except OSError as error:
        raise GuestUnavailableError(f"cannot prepare a guest in {cache}: {error}") from error


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _download(packages: Path) -> None:
    """Lay out Debian's kernel and busybox in ``packages``, which is whole or not there."""
    depends = _apt(["apt-cache", "depends", "linux-image-amd64"], packages.parent)
    names = re.findall(r"Depends: (linux-image-\d\S*)", depends)
    if not names:
        raise GuestUnavailableError("apt knows no kernel linux-image-amd64, which Debian has; try apt-get update")
    with tempfile.TemporaryDirectory(dir=packages.parent) as folder:
        _apt(["apt-get", "download", "-q", names[0], "busybox-static"], Path(folder))
        content = Path(folder) / "content"
        for package in Path(folder).glob("*.deb"):
            _apt(["dpkg", "-x", str(package), str(content)], Path(folder))
        content.rename(packages)


def _apt(command: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=True)
    except FileNotFoundError:
        raise GuestUnavailableError(f"{command[0]} is missing: guests are made of Debian's packages") from None
    except subprocess.TimeoutExpired:
        raise GuestUnavailableError(f"{shlex.join(command)}: not done after ten minutes") from None
    except subprocess.CalledProcessError as error:
        raise GuestUnavailableError(f"{shlex.join(command)}: {error.stderr.strip()}") from None
    return done.stdout


def _build(cache: Path, packages: Path) -> Parts:
    """Build the initramfs of this kernel and these scripts, and unpack the kernel, where they are not there."""
    (kernel,) = (packages / "boot").glob("vmlinuz-*")
    version = kernel.name.removeprefix("vmlinuz-")
    recipe = hashlib.sha256(Path(__file__).read_bytes() + INIT.read_bytes()).hexdigest()
    initramfs = cache / f"initramfs-{version}-{recipe[:12]}.cpio"
    if initramfs.exists():
        os.utime(initramfs)
    else:
        for old in cache.glob("initramfs-*"):
            if time.time() - old.stat().st_mtime > 86_400:  # else another checkout may be about to boot from it
                old.unlink()
        busybox = next(path for path in (packages / "bin/busybox", packages / "usr/bin/busybox") if path.exists())
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            root = Path(folder) / "root"
            for name in ("bin", "sbin"):
                (root / name).mkdir(parents=True)
            shutil.copy(busybox, root / "bin/busybox")
            (root / "init").write_text(INIT.read_text().replace("@AT_BOOT@", " ".join(MODULES_AT_BOOT)))
            (root / "init").chmod(0o755)
            _copy_modules(packages, version, root)
            subprocess.run([busybox, "depmod", "-b", root, version], check=True, capture_output=True)
            # Not compressed: emulated processors take longer to unpack than QEMU to read
            archive = Path(folder) / "cpio"
            archive.write_bytes(b"".join(_cpio(root)))
            archive.rename(initramfs)
    unpacked = cache / f"vmlinux-{version}"
    if not unpacked.exists():
        new = cache / "vmlinux.new"
        new.write_bytes(_unpacked(kernel.read_bytes()))
        new.rename(unpacked)
    return Parts(unpacked, initramfs)


def _unpacked(kernel: bytes) -> bytes:
    """Return the kernel as it would unpack itself, which takes emulated processors five seconds; else as it is."""
    start = kernel.find(b"\xfd7zXZ\0")
    if start >= 0:
        with contextlib.suppress(lzma.LZMAError):
            content = lzma.LZMADecompressor().decompress(kernel[start:])
            if content.startswith(b"\x7fELF"):
                return content
    return kernel


def _copy_modules(packages: Path, version: str, root: Path) -> None:
    """Copy the modules that guests use and all that these depend on, uncompressed."""
    (folder,) = (path for path in packages.glob(f"**/lib/modules/{version}") if path.is_dir())
    files = {_module_name(path): path for path in folder.rglob("*.ko*")}
    wanted, done = [*MODULES_AT_BOOT, *MODULES], set[str]()
    while wanted:
        name = wanted.pop().replace("-", "_")
        if name in done or name not in files:
            continue
        done.add(name)
        content = _content(files[name])
        copy = root / "lib/modules" / version / files[name].relative_to(folder)
        copy = copy.with_name(copy.name.partition(".ko")[0] + ".ko")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)
        depends = re.search(rb"\0depends=([^\0]*)\0", content)
        wanted += depends[1].decode().split(",") if depends else []
    for file in folder.glob("modules.builtin*"):
        shutil.copy(file, root / "lib/modules" / version)


def _module_name(path: Path) -> str:
    return path.name.partition(".ko")[0].replace("-", "_")


def _content(module: Path) -> bytes:
    content = module.read_bytes()
    return lzma.decompress(content) if module.suffix == ".xz" else content


def _cpio(root: Path) -> Iterator[bytes]:
    """Give the archive that the kernel unpacks as its first root file system ("newc")."""
    paths: Iterable[Path] = sorted(root.rglob("*"))
    for number, path in enumerate(paths, start=1):
        state = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(state.st_mode) else b""
        yield _cpio_entry(str(path.relative_to(root)), number, state.st_mode, content)
    # The kernel opens its console before /init makes any device
    yield _cpio_entry("dev", 0, stat.S_IFDIR | 0o755, b"")
    yield _cpio_entry("dev/console", 0, stat.S_IFCHR | 0o600, b"", device=(5, 1))
    yield _cpio_entry("TRAILER!!!", 0, 0, b"")


def _cpio_entry(name: str, number: int, mode: int, content: bytes, device: tuple[int, int] = (0, 0)) -> bytes:
    encoded = name.encode() + b"\0"
    # inode, mode, owner, group, links, time, size, the file's device, its own numbers, the name's length, no sum
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(encoded), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
    return _padded(header) + _padded(content)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 4)
