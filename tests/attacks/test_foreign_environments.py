"""The user's environment changes neither fio nor other programs on a real drive."""

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from measurements import Spec, measured, raw_files, start, writing
from patience import communicate

from iopatterns.base.subprocess_env import minimal_environment
from iopatterns.measuring import fio
from iopatterns.measuring.tuning.sg_commands import run_command
from iopatterns.raw import cells
from iopatterns.raw.metadata_files import read_metadata

# What libfaketime and libeatmydata do: another time, and no flushes. Each loading process appends its name to a file.
PRELOAD = """
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int fsync(int file) { return 0; }
int fdatasync(int file) { return 0; }
int clock_gettime(clockid_t clock, struct timespec *now) {
  long status = syscall(SYS_clock_gettime, clock, now);
  if (clock == CLOCK_REALTIME) now->tv_sec -= 315360000;
  return status;
}
__attribute__((constructor)) static void loaded(void) {
  FILE *log = fopen(getenv("LOADED"), "a");
  if (log) { fprintf(log, "%s\\n", program_invocation_short_name); fclose(log); }
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("cc is not installed")
    folder = tmp_path_factory.mktemp("preload")
    source, library = folder / "preload.c", folder / "preload.so"
    source.write_text(PRELOAD)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.fixture
def environment(library: Path, disk_folder: Path) -> dict[str, str]:
    return {**os.environ, "LD_PRELOAD": str(library), "LOADED": str(disk_folder / "loaded")}


def test_a_preloaded_library_reaches_neither_fio_nor_the_measurement(
    environment: dict[str, str], specification: Spec, disk_folder: Path
) -> None:
    specification = writing(specification, fsync=1)
    raws = raw_files(disk_folder, specification)
    running = start(disk_folder, specification, raws, env=environment)
    _, printed = communicate(running, 60)
    assert running.returncode == 0, printed
    (loaded,) = (disk_folder / "loaded").read_text().split()  # the process that started again without the library
    assert loaded.startswith("python")
    assert abs(datetime.fromisoformat(read_metadata(raws[0])["started"]) - datetime.now(UTC)) < timedelta(hours=1)


def test_a_process_with_a_preloaded_library_measures_no_real_drive(
    environment: dict[str, str], specification: Spec, disk_folder: Path
) -> None:
    code = "import json, sys; from pathlib import Path; from iopatterns.measuring.cell import measure_cell\n"
    code += "measure_cell(Path.cwd(), json.loads(sys.argv[1]), [Path(sys.argv[2])])"
    (raw,) = raw_files(disk_folder, specification)
    words = [sys.executable, "-c", code, cells.canonical_json(specification), str(raw)]
    ran = subprocess.run(words, cwd=disk_folder, env=environment, capture_output=True, text=True, check=False)
    assert "this process runs with LD_PRELOAD or LD_AUDIT" in ran.stderr
    assert "preload.so" in ran.stderr
    assert not raw.exists()


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "LD_LIBRARY_PATH", "FAKETIME", "GCONV_PATH", "MALLOC_PERTURB_", "PYTHONPATH", "HOME"]
)
def test_programs_on_a_real_drive_get_no_variable_of_the_user(
    name: str, disk_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "/nowhere")
    found = run_command(["env"])["stdout"].splitlines()
    fio.run_fio(["sh", "-c", f"env >{disk_folder}/env"], expected_s=1)
    found += (disk_folder / "env").read_text().splitlines()
    assert {line.partition("=")[0] for line in found} <= {*minimal_environment(), "PWD", "SHLVL", "_", "OLDPWD"}
    assert f"PATH={os.environ['PATH']}" in found


def test_a_library_in_ld_so_preload_is_a_doubt(library: Path, specification: Spec, disk_folder: Path) -> None:
    """Measure in a mount namespace of its own, in which /etc is a copy with the file ld.so.preload."""
    etc = disk_folder / "etc"
    subprocess.run(["cp", "-a", "/etc", etc], check=False, capture_output=True)
    (etc / "ld.so.preload").write_text(f"# a comment\n{library}\n")
    (raw,) = raw_files(disk_folder, specification)
    words = [sys.executable, "-m", "iopatterns", "measure", "--specification", cells.canonical_json(specification)]
    mounted = 'mount --bind "$0" /etc || exit 77; exec "$@"'
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mounted, etc, *words, raw],
        cwd=disk_folder,
        env={**os.environ, "LOADED": "/dev/null"},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode == 77 or "unshare" in ran.stderr:
        pytest.skip(f"needs a mount namespace: {ran.stderr}")
    assert ran.returncode == 0, ran.stderr
    assert f"libraries in every program (/etc/ld.so.preload: {library})" in read_metadata(raw)["doubts"]


def test_without_a_preloaded_library_there_is_no_doubt_about_one(specification: Spec, disk_folder: Path) -> None:
    (raw,) = measured(disk_folder, specification)
    assert not [doubt for doubt in read_metadata(raw)["doubts"] if "ld.so.preload" in doubt]
