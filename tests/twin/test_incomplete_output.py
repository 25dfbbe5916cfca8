"""A program on a simulated drive whose output is not written completely ends with an error."""

import resource
import signal
import subprocess
import sys
from pathlib import Path

import patience
import pytest
from twins import JOB, TWIN, run

from iopatterns import twin

SMALL = ["--size=64k", "--rw=read", "--direct=1"]
LIMIT_BYTES = 512
LIMIT = f"import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({LIMIT_BYTES},) * 2);"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return a state folder that an earlier run filled, because the limit applies to its files, too."""
    folder = tmp_path / "state"
    assert run(folder, "true").returncode == 0
    return folder


def limited(state: Path, *words: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run a program with `twin run`, with a limit for the size of files as of `ulimit -f`."""
    code = f"{LIMIT} os.execvp(sys.argv[1], sys.argv[1:])"
    command = [*TWIN, "run", "px05smb040", "--state", str(state), *options, "--", *words]
    return patience.run(
        [sys.executable, "-c", code, *command], 60, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_the_limit_for_the_size_of_files_is_reported(state: Path, tmp_path: Path) -> None:
    output = tmp_path / "o.json"
    done = limited(state, *JOB, *SMALL, "--output-format=json", f"--output={output}")
    assert done.returncode == 2
    assert f"twin: error: {output}: not written completely" in done.stderr
    assert "ulimit -f" in done.stderr
    assert output.stat().st_size == LIMIT_BYTES


def test_a_log_that_is_not_complete_is_reported(state: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = limited(state, *JOB, "--size=2m", "--rw=read", "--direct=1", f"--write_lat_log={log}", "--output=/dev/null")
    assert done.returncode == 2
    assert f"twin: error: {log}_" in done.stderr
    assert "not written completely" in done.stderr


def test_a_limit_is_reported_when_python_restores_signals(state: Path, tmp_path: Path) -> None:
    output = tmp_path / "o.json"
    words = [*JOB, *SMALL, "--output-format=json", f"--output={output}"]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    done = twin.run_on_twin(
        "px05smb040",
        words,
        state_folder=state,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, before[1])),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 2
    assert "not written completely" in done.stderr


@pytest.mark.parametrize("options", [["--output=/dev/full"], ["--output=/dev/full", "--output-format=json"]])
def test_a_full_disk_is_reported(options: list[str], state: Path) -> None:
    done = run(state, *JOB, *SMALL, *options)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("twin: error: /dev/full: not written completely")


def test_a_full_standard_output_is_reported(state: Path) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        command = [*TWIN, "run", "px05smb040", "--state", str(state), "--", *JOB, *SMALL]
        done = patience.run(command, 60, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("twin: error: /dev/full: not written completely")


def test_counters_that_are_not_complete_are_reported_and_leave_no_file(state: Path, tmp_path: Path) -> None:
    table = tmp_path / "counters.csv"
    done = limited(state, *JOB, *SMALL, "--output=/dev/null", options=("--counters", str(table)))
    assert done.returncode != 0
    assert "twin: error: " in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_parameters_that_are_not_complete_are_reported(tmp_path: Path) -> None:
    done = limited(tmp_path / "state", "true")
    assert done.returncode == 1
    assert done.stderr.startswith(f"twin: error: {tmp_path / 'state'}: File too large.")
    assert done.stderr.count("\n") == 1


def test_a_closed_pipe_ends_the_program_as_elsewhere(state: Path) -> None:
    words = [*TWIN, "run", "px05smb040", "--state", str(state), "--", "fio", "--cmdhelp=all"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(60) == -signal.SIGPIPE
