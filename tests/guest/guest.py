"""Run a script as root on a Debian kernel with its own drives, in QEMU's software emulation.

The host needs neither root nor special hardware. The guest's root file system is the host's, read through 9p, below a
layer in memory that takes all writes. Programs of the host run in the guest under the same paths, and the host's files
do not change.
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
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from patience import Limit

PROJECT = Path(__file__).resolve().parents[2]
QEMU = "qemu-system-x86_64"
INIT = Path(__file__).with_name("init.sh")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Kernel modules loaded before the script starts. Modules that are built in or missing are skipped.
MODULES_AT_BOOT = (
    "virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay",
    "virtio_blk", "virtio_scsi", "nvme", "ahci", "sd_mod", "sg",
    "crc32c_generic", "crc32c-intel",
)  # fmt: skip
# Kernel modules that the script or the kernel can load
MODULES = ("scsi_debug", "loop", "dm-mod", "md-mod", "raid1", "ext4", "bfq", "mq-deadline")


class GuestError(Exception):
    """The guest failed to run the script, so nothing is known about the script."""


class GuestUnavailableError(GuestError):
    """Guests cannot run on this machine; the message has the reason and the remedy."""


@dataclass(frozen=True)
class Disk:
    """A drive of the guest. The script's variable with the name in capitals has the path of its device."""

    name: str
    bus: Literal["scsi", "sata", "nvme", "virtio"]
    serial: str
    model: str = ""
    size_mb: int = 64

    @property
    def by_id(self) -> str:
        """The name of the drive's link in /dev/disk/by-id."""
        model = self.model.replace(" ", "_")
        return {
            "scsi": f"scsi-SGUEST_{model}_{self.serial}",
            "sata": f"ata-{model}_{self.serial}",
            "nvme": f"nvme-{model}_{self.serial}",
            "virtio": f"virtio-{self.serial}",
        }[self.bus]

    def entry(self, **changes: Any) -> dict[str, Any]:
        """Return the drive's entry in config/drives.yaml, with consent to writing the drive."""
        usual = {
            "kind": "block",
            "path": f"/dev/disk/by-id/{self.by_id}",
            "serial": self.serial,
            "destroy": self.serial,
        }
        return {**usual, "expendable": ["ext4", "dos", "swap", "data"], **changes}


# One drive of each kind. QEMU does not let NVMe and virtio drives have another model.
FOUR_DISKS = (
    Disk("scsi", "scsi", "S0001", "GUEST SSD"),
    Disk("sata", "sata", "A0001", "GUEST SATA SSD"),
    Disk("nvme", "nvme", "N0001", "QEMU NVMe Ctrl"),
    Disk("virtio", "virtio", "V0001"),
)


@dataclass(frozen=True)
class Section:
    """The result of one of several pieces of a script."""

    status: int
    output: str


class Guest:
    """A virtual machine with its own drives, switched off until `run` boots it.

    Attributes:
        folder: The folder for the drives' images, which are kept between boots, and for the log of the last boot.
        share: The guest's /share, a folder below ``folder`` for files in and out.
        disks: The drives.
    """

    def __init__(self, folder: Path, disks: Sequence[Disk] = FOUR_DISKS) -> None:
        self._kernel, self._initramfs = prepare()
        self.folder = folder.resolve()
        self.disks = tuple(disks)
        self.share = self.folder / "share"
        self._boot = self.folder / "boot"
        for needed in (self.folder, self.share, self._boot):
            needed.mkdir(parents=True, exist_ok=True)
        for disk in self.disks:
            if not self.image(disk.name).exists():
                with self.image(disk.name).open("wb") as image:
                    image.truncate(disk.size_mb * 2**20)

    def image(self, name: str) -> Path:
        """Return the path of the image of the drive with this name."""
        return self.folder / f"{name}.img"

    def checksums(self) -> dict[str, str]:
        """Return the SHA-256 sums of the drives' images, by name."""
        return {disk.name: hashlib.sha256(self.image(disk.name).read_bytes()).hexdigest() for disk in self.disks}

    def fill(self) -> dict[str, str]:
        """Fill all drives with random data; return the checksums."""
        for disk in self.disks:
            self.image(disk.name).write_bytes(os.urandom(disk.size_mb * 2**20))
        return self.checksums()

    def unchanged(self, before: Mapping[str, str]) -> list[str]:
        """Return the names of the drives that still have the checksums ``before``."""
        return [name for name, checksum in self.checksums().items() if checksum == before[name]]

    def run(self, script: str, *, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Boot, run ``script`` with bash as root, and power off.

        The script starts in the project's folder. It has the variables PROJECT, PYTHON (this interpreter), SHARE, and
        the devices of the drives.

        Args:
            script: The script.
            timeout_s: Time limit in seconds, boot included, for an idle machine; a slow or busy machine gets more time.

        Returns:
            The exit status and the output; standard output and standard error are one text.

        Raises:
            TimeoutExpired: The time limit is over.
            GuestError: The guest ended before the script.
        """
        self._write_boot(script)
        with (self._boot / "qemu.log").open("wb") as log:
            qemu = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            status = self._wait(qemu, Limit(timeout_s))
        finally:
            qemu.kill()
            qemu.wait()
        output = self._text("output")
        if status is None:
            raise subprocess.TimeoutExpired(["guest", self._where()], timeout_s, output=output)
        return subprocess.CompletedProcess(["guest"], status, output)

    def run_sections(self, sections: Mapping[str, str], *, timeout_s: float = 120) -> dict[str, Section]:
        """Run pieces of a script in one boot, each in its own bash; return and print the results by name."""
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
            found[name] = Section(int(status), output)
            print(f"== {name}: status {status} after {float(end) - float(start):.1f} s\n{output}")
        return found

    def _write_boot(self, script: str) -> None:
        for old in self._boot.iterdir():
            old.unlink()
        environment = {
            "DM_DISABLE_UDEV": "1",  # otherwise dmsetup waits for udev, which does not run
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "PATH": f"{Path(sys.executable).parent}:/guest/bin:{SYSTEM_PATH}",
            "PROJECT": str(PROJECT),
            "PYTHON": sys.executable,
            "SHARE": "/share",
        }
        disks = (f"{disk.name.upper()} {disk.serial} {disk.by_id}\n" for disk in self.disks)
        variables = (f"{name}={shlex.quote(value)}\n" for name, value in environment.items())
        for name, text in {"environment": "".join(variables), "script": script, "disks": "".join(disks)}.items():
            (self._boot / name).write_text(text)

    def _wait(self, qemu: subprocess.Popen[bytes], limit: Limit) -> int | None:
        """Return the script's exit status, or None if the time limit is over."""
        while qemu.poll() is None:
            if limit.expired():
                return None
            time.sleep(0.01)
        report = dict(line.partition(" ")[::2] for line in self._text("report").splitlines())
        if "exit" not in report:
            reason = report.get("failed") or f"QEMU ended with {qemu.returncode} before the script did"
            raise GuestError(f"{reason}\n{self._where()}")
        return int(report["exit"])

    def _text(self, name: str) -> str:
        path = self._boot / name
        return path.read_text(errors="replace") if path.exists() else ""

    def _where(self) -> str:
        """Return how far the guest got, for messages."""
        console = [line for line in self._text("console").splitlines() if line.strip()]
        reached = "the script was running" if "booted" in self._text("report") else "the script had not started"
        return "\n".join([reached, *self._text("qemu.log").splitlines()[-5:], *console[-10:]])

    def _command(self) -> list[str]:
        # QEMU ends with its parent, for example when pytest is killed
        command = ["setpriv", "--pdeathsig", "KILL", QEMU, "-nodefaults", "-no-user-config", "-no-reboot"]
        # Emulation only: hardware virtualisation may hang if it is nested, and emulation works everywhere.
        # The disabled features cost an emulator more than they save: a fifth level of page tables, checks of the
        # kernel's accesses to the memory of programs, and wide registers.
        processor = "max,-la57,-smap,-smep,-avx,-avx2,-erms"
        command += ["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", processor, "-display", "none"]
        command += ["-m", "1024", "-smp", "1"]
        command += ["-kernel", str(self._kernel), "-initrd", str(self._initramfs)]
        # norandmaps: code at the same addresses in all processes is translated only once
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
            # "unsafe" ignores the guest's flushes: the host's cache outlives QEMU in any case
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
    """Return a path as a value of an option of QEMU."""
    return str(path).replace(",", ",,")


def prepare() -> tuple[Path, Path]:
    """Return the kernel and the initramfs of guests; download and build them if the user's cache lacks them."""
    if platform.machine() != "x86_64":
        raise GuestUnavailableError(f"guests are x86_64, and this machine is {platform.machine()}")
    if shutil.which(QEMU) is None:
        raise GuestUnavailableError(f"{QEMU} is missing; install the package qemu-system-x86")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "iopatterns-guest"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            packages = cache / "packages"
            if not packages.exists():
                _download(packages)
            return _build(cache, packages)
    except OSError as error:
        raise GuestUnavailableError(f"cannot prepare a guest in {cache}: {error}") from error


def _download(packages: Path) -> None:
    """Unpack Debian's kernel and busybox into the new folder ``packages``; create nothing if that fails."""
    depends = _apt(["apt-cache", "depends", "linux-image-amd64"], packages.parent)
    names = re.findall(r"Depends: (linux-image-\d\S*)", depends)
    if not names:
        raise GuestUnavailableError("apt has no package linux-image-amd64; try apt-get update, on Debian")
    with tempfile.TemporaryDirectory(dir=packages.parent) as folder:
        _apt(["apt-get", "download", "-q", names[0], "busybox-static"], Path(folder))
        content = Path(folder) / "content"
        for package in Path(folder).glob("*.deb"):
            _apt(["dpkg", "-x", str(package), str(content)], Path(folder))
        content.rename(packages)


def _apt(command: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise GuestUnavailableError(f"{command[0]} is missing; guests need packages of Debian") from None
    except subprocess.CalledProcessError as error:
        raise GuestUnavailableError(f"{shlex.join(command)}: {error.stderr.strip()}") from None
    return done.stdout


def _build(cache: Path, packages: Path) -> tuple[Path, Path]:
    """Build the initramfs and unpack the kernel, unless the cache has them; return both."""
    (kernel,) = (packages / "boot").glob("vmlinuz-*")
    version = kernel.name.removeprefix("vmlinuz-")
    recipe = hashlib.sha256(Path(__file__).read_bytes() + INIT.read_bytes()).hexdigest()
    initramfs = cache / f"initramfs-{version}-{recipe[:12]}.cpio"
    if initramfs.exists():
        os.utime(initramfs)
    else:
        for old in cache.glob("initramfs-*"):
            if time.time() - old.stat().st_mtime > 86_400:  # another checkout may be about to boot from a newer one
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
            # Not compressed: an emulated processor unpacks it more slowly than QEMU reads it
            archive = Path(folder) / "cpio"
            archive.write_bytes(b"".join(_cpio(root)))
            archive.rename(initramfs)
    unpacked = cache / f"vmlinux-{version}"
    if not unpacked.exists():
        new = cache / "vmlinux.new"
        new.write_bytes(_unpacked(kernel.read_bytes()))
        new.rename(unpacked)
    return unpacked, initramfs


def _unpacked(kernel: bytes) -> bytes:
    """Return the unpacked kernel, or the packed one if its format is unknown.

    Otherwise the kernel unpacks itself, which takes an emulated processor five seconds.
    """
    start = kernel.find(b"\xfd7zXZ\0")
    if start >= 0:
        with contextlib.suppress(lzma.LZMAError):
            content = lzma.LZMADecompressor().decompress(kernel[start:])
            if content.startswith(b"\x7fELF"):
                return content
    return kernel


def _copy_modules(packages: Path, version: str, root: Path) -> None:
    """Copy the modules for guests, and all modules that they depend on, uncompressed."""
    (folder,) = (path for path in packages.glob(f"**/lib/modules/{version}") if path.is_dir())
    files = {_module_name(path): path for path in folder.rglob("*.ko*")}
    wanted, done = [*MODULES_AT_BOOT, *MODULES], set[str]()
    while wanted:
        name = wanted.pop().replace("-", "_")
        if name in done or name not in files:
            continue
        done.add(name)
        content = files[name].read_bytes()
        if files[name].suffix == ".xz":
            content = lzma.decompress(content)
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


def _cpio(root: Path) -> Iterator[bytes]:
    """Yield the parts of the cpio archive ("newc") that the kernel unpacks as its first root file system."""
    for number, path in enumerate(sorted(root.rglob("*")), start=1):
        state = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(state.st_mode) else b""
        yield _cpio_entry(str(path.relative_to(root)), number, state.st_mode, content)
    # The kernel opens its console before /init creates devices
    yield _cpio_entry("dev", 0, stat.S_IFDIR | 0o755, b"")
    yield _cpio_entry("dev/console", 0, stat.S_IFCHR | 0o600, b"", device=(5, 1))
    yield _cpio_entry("TRAILER!!!", 0, 0, b"")


def _cpio_entry(name: str, number: int, mode: int, content: bytes, device: tuple[int, int] = (0, 0)) -> bytes:
    encoded = name.encode() + b"\0"
    # inode, mode, owner, group, links, time, size, device of the file (2), device numbers (2), length of name, checksum
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(encoded), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
    return _padded(header) + _padded(content)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 4)
