"""fio on a simulated drive writes the same bytes in every time zone and language, for every umask and user."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from twins import JOB, TWIN

from iopatterns.twin.running import command_on_drive, prepare_environment

MEASURED = [*JOB, "--direct=1", "--rw=randread", "--ioengine=psync", "--time_based=1", "--runtime=50ms"]
OUTPUT = ["--output-format=json+", "--output=raw.json"]


def raw(folder: Path, umask: int = 0o022, **variables: str | None) -> bytes:
    """Run fio with these environment variables (None removes one); return its output file."""
    folder.mkdir()
    environment = {name: value for name, value in {**os.environ, **variables}.items() if value is not None}
    done = subprocess.run(
        [*TWIN, "run", "px05smb040", "--state", str(folder / "state"), "--", *MEASURED, *OUTPUT],
        cwd=folder, env=environment, umask=umask, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return (folder / "raw.json").read_bytes()


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    content = raw(tmp_path_factory.mktemp("reference") / "raw", TZ="UTC", LC_ALL="C.UTF-8", LANGUAGE=None)
    assert b'"time" : "Tue Jan  7 00:00:' in content
    return content


ELSEWHERE: dict[str, dict[str, str | None]] = {
    "Berlin": {"TZ": "Europe/Berlin"},
    "Kathmandu": {"TZ": ":Asia/Kathmandu"},
    "a zone given by its rule": {"TZ": "XYZ-13:37"},
    "the machine's zone": {"TZ": None},
    "German": {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "LANGUAGE": "de"},
    "German numbers": {"LC_ALL": None, "LC_NUMERIC": "de_DE.UTF-8", "LC_TIME": "de_DE.UTF-8"},
    "C": {"LC_ALL": "C", "LANG": None},
    "strict POSIX": {"POSIXLY_CORRECT": "1"},
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_bytes_do_not_depend_on_zone_and_language(name: str, reference: bytes, tmp_path: Path) -> None:
    assert raw(tmp_path / "raw", 0o022, **ELSEWHERE[name]) == reference


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_bytes_do_not_depend_on_the_umask(umask: int, reference: bytes, tmp_path: Path) -> None:
    assert raw(tmp_path / "raw", umask) == reference


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, and setpriv of util-linux")
def test_bytes_do_not_depend_on_the_user(reference: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    # another user may have no access to the package: so only fio runs as that user
    folder = tmp_path_factory.mktemp("other-user")
    base = Path(tempfile.gettempdir())
    for parent in (folder, *(parent for parent in folder.parents if parent != base and parent.is_relative_to(base))):
        parent.chmod(0o755)
    environment = prepare_environment("px05smb040", str(folder / "state"))
    library = Path(shutil.copy(environment["LD_PRELOAD"], folder))
    output = folder / "there"
    output.mkdir()
    for path in (folder, folder / "state", output):
        shutil.chown(path, 65534, 65534)
    command = command_on_drive([*MEASURED, *OUTPUT], environment)
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command],
        cwd=output, env={**environment, "LD_PRELOAD": str(library)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (output / "raw.json").stat().st_uid == 65534
    assert (output / "raw.json").read_bytes() == reference
