"""Loop devices for tests: block devices of the kernel on files. They require root."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_BLKDISCARD = 0x1277  # linux/fs.h


def run(*words: str | Path) -> str:
    """Run a command; return what it prints.

    The test is skipped if the command is not installed.
    """
    if shutil.which(str(words[0])) is None:
        pytest.skip(f"{words[0]} is not installed")
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout.strip()


class Loop:
    """A loop device and the file behind it.

    The path of the file is the serial number of the device.
    """

    def __init__(self, device: str, image: Path) -> None:
        self.device = Path(device)
        self.image = image
        self.serial = str(image)

    @property
    def scheduler(self) -> Path:
        return Path("/sys/block") / self.device.name / "queue/scheduler"

    def present_scheduler(self) -> str:
        text = self.scheduler.read_text()
        return text[text.index("[") + 1 : text.index("]")]

    def discard(self) -> None:
        """Delete the content: it reads as zeros."""
        with open(self.device, "r+b", buffering=0) as device:
            fcntl.ioctl(device, _BLKDISCARD, struct.pack("QQ", 0, self.image.stat().st_size))

    def checksum(self) -> str:
        """Return the SHA-256 of the content."""
        with open(self.image, "rb") as file:
            os.fsync(file.fileno())
            return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def loop_device(folder: Path, name: str = "disk", size_mib: int = 64, *options: str) -> Iterator[Loop]:
    """Yield a loop device on a new file.

    The test is skipped, with the reason, if none can be made.
    """
    image = folder / name
    image.touch()
    os.truncate(image, size_mib * 2**20)
    try:
        device = run("losetup", "--find", "--show", "--direct-io=on", *options, image)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no loop device can be made here (as root, with losetup): {error}")
    try:
        yield Loop(device, image)
    finally:
        run("losetup", "--detach", device)


@contextlib.contextmanager
def undone(*words: str | Path) -> Iterator[None]:
    """Run a command on exit."""
    try:
        yield
    finally:
        run(*words)


def mounted_or_skipped(*words: str | Path) -> None:
    """Mount a file system; skip the test, with the reason, if that is not possible.

    Args:
        words: The arguments of mount(8).
    """
    try:
        run("mount", *words)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"cannot be mounted here: {error}")
