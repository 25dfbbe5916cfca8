"""Loop devices for tests: block devices of the real kernel on files of their own, made and undone as root."""

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


def run(*words: str | Path) -> str:
    """Run a command, return what it prints; CalledProcessError where it fails. Skips the test where it is missing."""
    if shutil.which(str(words[0])) is None:
        pytest.skip(f"{words[0]} is not installed")
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout.strip()


class Loop:
    """A loop device and the file behind it, whose path is what stands for the device's serial number."""

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

    def checksum(self) -> str:
        """Return the SHA-256 of what is on it."""
        with open(self.image, "rb") as file:
            os.fsync(file.fileno())
            return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def loop_device(folder: Path, name: str = "disk", size_mib: int = 64, *options: str) -> Iterator[Loop]:
    """Yield a loop device on a new file; the test is skipped, with the reason, where none can be made."""
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
    """Run a command when the context ends."""
    try:
        yield
    finally:
        run(*words)
