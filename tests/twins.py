"""Runs the command `twin` and fio on twins, for tests."""

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from statistics import fmean
from typing import Any

import patience
from support import ROOT

from iopatterns import twin
from iopatterns.twin import cli
from iopatterns.twin.fitting import published_points, simulate_point

TWIN = [sys.executable, "-m", "iopatterns.twin"]
JOB = ["fio", "--name=job", "--filename={drive}", "--size=256m", "--bs=4k", "--randrepeat=0", "--randseed=7"]


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Do what `twin WORDS` does: in this process, where pandas is imported once; a program that it runs in its own."""
    if words[0] == "run":
        return patience.run([*TWIN, *words], 120, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    status: Any = 0
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
        try:
            cli.main(list(words))
        except SystemExit as end:
            status = end.code
    return subprocess.CompletedProcess(words, status, output.getvalue(), errors.getvalue())


def run(
    state: Path, *words: str, keep_data: bool = False, model: str = "px05smb040", settings: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    options = ["--state", str(state), *(["--keep-data"] if keep_data else []), *(f"--set={each}" for each in settings)]
    words = (*TWIN, "run", model, *options, "--", *words)
    return patience.run(words, 120, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def fio(
    state: Path, *options: str, model: str = "px05smb040", keep_data: bool = False, settings: Sequence[str] = ()
) -> dict[str, Any]:
    """Run fio with json+ output, and return what it wrote."""
    raw = state / "raw.json"
    state.mkdir(parents=True, exist_ok=True)
    done = run(
        state,
        *JOB,
        "--direct=1",
        "--output-format=json+",
        f"--output={raw}",
        *options,
        model=model,
        keep_data=keep_data,
        settings=settings,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    text = raw.read_text()
    content: dict[str, Any] = json.JSONDecoder().raw_decode(text[text.index("{") :])[0]
    return content


def a_second(state: Path, model: str, rw: str, *options: str) -> dict[str, Any]:
    """Return what fio wrote of a second of 4 KiB requests, one at a time, in the first GiB of a drive."""
    engine = ("--ioengine=psync", "--size=1g", f"--rw={rw}", "--time_based=1", "--runtime=1s")
    (job,) = fio(state, *engine, *options, model=model)["jobs"]
    assert job["error"] == 0
    return dict(job)


def iops(state: Path, model: str, rw: str, *options: str) -> float:
    """Return the rate of `a_second`."""
    job = a_second(state, model, rw, *options)
    return float(job["read"]["iops"] + job["write"]["iops"])


def mean_fit_errors(model: str) -> tuple[float, float]:
    """Return the mean relative errors of a model: of the published values it was fitted to, and of the others."""
    drive = twin.load_model(model)
    errors: dict[bool, list[float]] = {False: [], True: []}
    for point in published_points(ROOT, drive.fit):
        errors[point.predicted].append(abs(simulate_point(drive, point) / point.value - 1))
    return fmean(errors[False]), fmean(errors[True])
