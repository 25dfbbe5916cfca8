"""Common programs for storage on simulated drives: their output and their rates, by the table in programs.yaml."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import patience
import pytest
from support import ROOT, script
from twins import TWIN, fio, run

from iopatterns import twin

listing = script(ROOT / "src/twin/preload/list_programs.py")
TABLE = listing.read_programs()
CASES = [(row, model) for row in TABLE.rows for model in row.models]
# sbin is not in the path of an ordinary user
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"


def required(program: str) -> str:
    """Return the path of a program; skip the test where it is not installed."""
    found = shutil.which(program, path=PATH)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def words_of(model: str) -> dict[str, str | int]:
    """Return what a program may report about a drive."""
    drive = twin.load_model(model)
    escaped = {key: re.escape(str(value)) for key, value in drive.identity.items()}
    return {**escaped, "sectors": drive.size_bytes // 512, "bytes": drive.size_bytes}


def rate_of(match: re.Match[str], unit: int) -> float:
    """Return a rate in bytes or requests per second."""
    groups = match.groupdict()
    if "bytes" in groups:
        return float(groups["bytes"]) / float(groups["seconds"])
    return float(groups["rate"]) * (unit or 1)


@pytest.mark.parametrize(("row", "model"), CASES, ids=[f"{row.program}-{model}" for row, model in CASES])
def test_a_program_recognises_the_drive_and_agrees_with_fio(
    row: Any, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where some programs make files
    name, *arguments = shlex.split(row.command)
    command = [*TWIN, "run", model, "--state", str(tmp_path / "state"), "--", required(name), *arguments]
    done = patience.run(command, 120, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == row.status, done.stdout
    for text in row.prints:
        expected = text.format(**words_of(model))
        assert re.search(expected, done.stdout), f"{expected}: {done.stdout}"
    if not row.rate:
        return
    match = re.search(row.rate, done.stdout, re.MULTILINE)
    assert match, done.stdout
    read = fio(tmp_path / "fio", "--ioengine=psync", *row.fio.split(), model=model)["jobs"][0]["read"]
    expected_rate = read["bw_bytes"] if row.unit else read["iops"]
    assert rate_of(match, row.unit) == pytest.approx(expected_rate, rel=0.05)


def test_each_rate_is_compared_with_fio() -> None:
    assert [row.program for row in TABLE.rows if bool(row.rate) != bool(row.fio)] == []


def test_the_page_of_programs_is_up_to_date() -> None:
    written = listing.PROGRAMS_PAGE.read_text(encoding="utf-8")
    assert written == listing.programs_page(TABLE), "update it: python src/twin/preload/list_programs.py"


# Expressions of C for the time in seconds, by the functions that a program may measure with
CLOCKS = {
    "getitimer": "(getitimer(ITIMER_REAL, &timer), 1000 - timer.it_value.tv_sec - timer.it_value.tv_usec / 1e6)",
    "times": "times(NULL) / (double)sysconf(_SC_CLK_TCK)",
    "timerfd_gettime": "(timerfd_gettime(descriptor, &set), 1000 - set.it_value.tv_sec - set.it_value.tv_nsec / 1e9)",
    "clock_gettime by number": "(syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now), now.tv_sec + now.tv_nsec / 1e9)",
    "/proc/uptime": "uptime()",
}
TIMED = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>
double uptime(void) {
  double seconds = 0;
  FILE* file = fopen("/proc/uptime", "r");
  if (fscanf(file, "%lf", &seconds) != 1) exit(1);
  fclose(file);
  return seconds;
}
int main(int count, char** words) {
  struct itimerval timer = {{0, 0}, {1000, 0}};
  struct itimerspec set = {{0, 0}, {1000, 0}};
  struct timespec now;
  void* buffer;
  if (count != 2 || posix_memalign(&buffer, 4096, 1 << 20) != 0) return 1;
  int drive = open(words[1], O_RDONLY | O_DIRECT);
  int descriptor = timerfd_create(CLOCK_MONOTONIC, 0);
  setitimer(ITIMER_REAL, &timer, NULL);
  timerfd_settime(descriptor, 0, &set, NULL);
  double start = TIME;
  for (int i = 0; i < 200; i++) {
    if (syscall(SYS_pread64, drive, buffer, 1 << 20, (off_t)i << 20) != 1 << 20) return 1;
  }
  printf("%.6f", TIME - start);
}
"""


def compiled(program: Path, source: str, *options: str) -> str:
    """Compile a C program; return its path."""
    compiler = ["gcc", "-D_GNU_SOURCE", "-O1", *options, "-x", "c", "-o", str(program), "-"]
    subprocess.run(compiler, input=source, text=True, check=True)
    return str(program)


@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
def test_a_program_agrees_with_fio_whatever_clock_it_measures_with(clock: str, tmp_path: Path) -> None:
    program = compiled(tmp_path / "timed", TIMED, f"-DTIME={clock}")
    done = run(tmp_path / "state", program, "{drive}", model="c400")
    assert done.returncode == 0, done.stderr
    measured = fio(tmp_path / "fio", "--ioengine=psync", "--rw=read", "--bs=1m", "--size=200m", model="c400")
    rate = measured["jobs"][0]["read"]["bw_bytes"]
    assert (200 << 20) / float(done.stdout) == pytest.approx(rate, rel=0.01)


def test_a_statically_linked_program_is_refused_on_the_drive(tmp_path: Path) -> None:
    program = compiled(tmp_path / "static", "int main(void) { return 0; }", "-static")
    done = run(tmp_path / "state", program, "{drive}")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(rf"twin: error: {program} is statically linked.*\n", done.stderr)
    assert run(tmp_path / "state", program).returncode == 0  # it may start programs on the drive


REFUSED = {
    "getitimer of processor time": "signal.setitimer(signal.ITIMER_PROF, 1)",
    "the clock of another process": "time.clock_gettime(-6)",
    "setting the clock": "time.clock_settime(time.CLOCK_REALTIME, 0)",
}


@pytest.mark.parametrize("code", REFUSED.values(), ids=REFUSED)
def test_what_would_run_on_the_clock_of_the_host_is_refused(code: str, tmp_path: Path) -> None:
    done = run(tmp_path, "python3", "-c", f"import signal, time; {code}")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"twin: error: .* cannot be served: .*\n", done.stderr)
