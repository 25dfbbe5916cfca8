"""Helpers that run the command `twin` and fio on simulated drives."""

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import patience
from support import ROOT

from iopatterns import twin
from iopatterns.twin import cli, fitting

TWIN = [sys.executable, "-m", "iopatterns.twin"]
JOB = ["fio", "--name=job", "--filename={drive}", "--size=256m", "--bs=4k", "--randrepeat=0", "--randseed=7"]


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `twin` with these arguments: in this process, which has imported pandas, except for `twin run`."""
    if words[0] == "run":
        return patience.run([*TWIN, *words], 120, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    status: Any = 0
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
        try:
            cli.main(list(words))
        except SystemExit as end:
            status = end.code or 0
    return subprocess.CompletedProcess(words, status, output.getvalue(), errors.getvalue())


def run(
    state: Path, *words: str, keep_data: bool = False, model: str = "px05smb040", settings: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a program with `twin run`."""
    options = ["--state", str(state), *(["--keep-data"] if keep_data else []), *(f"--set={each}" for each in settings)]
    return command("run", model, *options, "--", *words)


def fio(
    state: Path, *options: str, model: str = "px05smb040", keep_data: bool = False, settings: Sequence[str] = ()
) -> dict[str, Any]:
    """Run fio, which must succeed, on a simulated drive; return its json+ output, also in ``state/raw.json``."""
    raw = state / "raw.json"
    state.mkdir(parents=True, exist_ok=True)
    words = [*JOB, "--direct=1", "--output-format=json+", f"--output={raw}", *options]
    done = run(state, *words, model=model, keep_data=keep_data, settings=settings)
    assert done.returncode == 0, done.stdout + done.stderr
    return json_of(raw.read_text())


def json_of(text: str) -> dict[str, Any]:
    """Return the JSON object in fio's output, which notices may precede and follow."""
    content: dict[str, Any] = json.JSONDecoder().raw_decode(text[text.index("{") :])[0]
    return content


def mean_us(content: dict[str, Any], direction: str = "read") -> float:
    """Return the mean latency of the first job in fio's output, in microseconds."""
    return float(content["jobs"][0][direction]["lat_ns"]["mean"] / 1e3)


def a_second(state: Path, model: str, rw: str, *options: str) -> dict[str, Any]:
    """Return fio's result for one second of single 4 KiB requests to the first GiB of a drive."""
    engine = ("--ioengine=psync", "--size=1g", f"--rw={rw}", "--time_based=1", "--runtime=1s")
    (job,) = fio(state, *engine, *options, model=model)["jobs"]
    assert job["error"] == 0
    return dict(job)


def iops(state: Path, model: str, rw: str, *options: str) -> float:
    """Return the rate of the workload of `a_second` in requests per second."""
    job = a_second(state, model, rw, *options)
    return float(job["read"]["iops"] + job["write"]["iops"])


def mean_fit_errors(model: str) -> tuple[float, float]:
    """Return the mean absolute relative errors of a model at its fitted and at its held-out published values."""
    drive = twin.load_model(model)
    errors = fitting.complete_errors(drive, fitting.recorded_points(ROOT, drive))
    fitted = errors["part"] == "fit"
    return float(errors[fitted]["error_iops"].abs().mean()), float(errors[~fitted]["error_iops"].abs().mean())
