"""Comparison of recordings of programs with replays of these recordings.

A recording is a block trace of a program that ran in a real kernel on a simulated drive. A block trace lists requests
to a drive with their times. A dependent replay keeps the dependencies between the requests, see
`iopatterns.twin.dependencies`. If a program was recorded on several drives, the replay of one recording on the drive
of another shows how well a replay predicts what the program does on that drive.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from iopatterns.analysis.replays import replay_details
from iopatterns.analysis.tables import Column, Table, three_digits
from iopatterns.base.errors import IoPatternsError

# A larger difference between a recording and its replay on the same drive is an error of the simulator
MAX_DIFFERENCE = 0.02


class RecordingError(IoPatternsError):
    """The error raised if a replay on the recorded drive does not reproduce the recording."""


def recorded_runs(measurements: Path, is_time_based: Callable[[str], bool] = lambda _: False) -> pd.DataFrame:
    """Return the durations of recorded programs, and of the replays of the recordings.

    Args:
        measurements: The Parquet file of a study's measurements.
        is_time_based: Returns whether the program of an experiment, given its name, runs for a fixed time. The duration
            of a replay is then scaled to the number of requests of the recording with which it is compared.

    Returns:
        A row for each replayed drive, recording and run. Columns:

        - program: file name of the recording that is compared with its replay, without the name of the drive
        - phase: name of the replayed phase
        - drive: the drive of the replay
        - recorded_on: the drive of the replayed recording
        - on_this_drive: whether these are the same drive with the same parameters
        - live: whether the same run of the workflow recorded it
        - shown: whether this is the recording that is compared with its replay: the project's recording on this drive,
          or else the replayed one
        - run: number of the run, from 0
        - measured_s: duration of the run in the recording on this drive as it is; NaN if there is none
        - recorded_s: duration of the run in the replayed recording
        - replayed_s: duration of the run in the replay on this drive
        - error: replayed_s divided by measured_s, minus 1
        - latency_error: the same for the mean latency of all requests of the phase
        - one_at_a_time: whether the replayed recording never has two outstanding requests, and that on this drive has

    Raises:
        RecordingError: A replay on the recorded drive differs from the recording by more than `MAX_DIFFERENCE`, in the
            duration of a run or in the mean latency. Or no replayed trace names the drive on which it was recorded.
    """
    details = replay_details(measurements, "recordings").dropna(subset=["recordings"])
    found = pd.DataFrame(
        [
            row
            for _, cell in details.iterrows()
            for row in _runs_of_cell(
                cell["drive"], cell["recordings"], any(map(is_time_based, str(cell["experiments"]).split()))
            )
        ]
    )
    if found.empty:
        raise RecordingError(
            "No replayed trace names the drive on which it was recorded. Record the traces again: snakemake capture."
        )
    _require_reproduced(found)
    return found


def _runs_of_cell(
    drive: str, compared: Sequence[Mapping[str, Any]], per_request: bool
) -> Iterator[dict[str, str | bool | float]]:
    """Yield the rows of `recorded_runs` for one cell.

    Args:
        drive: The drive of the cell.
        compared: The compared recordings, as `measuring.recordings.compare_recordings` returns them.
        per_request: Whether durations of replays are scaled to the number of requests of the recording on this drive.
    """
    here = next((each for each in compared if each["on_this_drive"]), None)
    shipped = [each for each in compared if not each["live"]] or list(compared)
    shown = min(shipped, key=lambda each: (not each["on_this_drive"], each["drive"] != drive))
    for each in compared:
        scale = here["requests"] / each["requests"] if per_request and here else 1.0
        for run, replayed_ns in enumerate(each["replayed_ns"]):
            measured_ns = here["recorded_ns"][run] if here else math.nan
            yield {
                "program": Path(shown["trace"]).stem.removesuffix(f"-{shown['drive']}"),
                "phase": shown["phase"],
                "drive": drive,
                "recorded_on": each["drive"],
                "on_this_drive": each["on_this_drive"],
                "live": each["live"],
                "shown": each is shown,
                "run": run,
                "measured_s": measured_ns / 1e9,
                "recorded_s": each["recorded_ns"][run] / 1e9,
                "replayed_s": replayed_ns * scale / 1e9,
                "error": replayed_ns * scale / measured_ns - 1,
                "latency_error": each["replayed_latency_ns"] / here["recorded_latency_ns"] - 1 if here else math.nan,
                "one_at_a_time": here is not None and each["largest_depth"] == 1 < here["largest_depth"],
            }


def _require_reproduced(found: pd.DataFrame) -> None:
    for _, row in found.iterrows():
        for what in ("error", "latency_error"):
            if row["on_this_drive"] and abs(row[what]) > MAX_DIFFERENCE:
                raise RecordingError(
                    f"{row['program']}, {row['phase']}: the replay on {row['drive']}, on which it was recorded, differs"
                    f" from the recording by {row[what]:.1%}. At most {MAX_DIFFERENCE:.0%} is allowed. Record the trace"
                    " again (snakemake capture) if the simulator has changed."
                )


def recordings_table(found: pd.DataFrame) -> Table:
    """Return the table of recordings and their replays.

    Args:
        found: The durations, as `recorded_runs` returns them.

    Returns:
        A table with a row for each program, phase and drive. All durations are of all runs, in seconds. Columns:

        - recorded_on: the drive of the recording
        - recorded_s: in the recording
        - replayed_s: in the replay of this recording on the drive
        - live_s: in the recording on the drive by the same run of the workflow; NaN if the run recorded nothing
        - others: the errors of the replays of recordings on other drives, as text
    """
    keys = ["program", "phase", "drive"]
    times = ["measured_s", "recorded_s", "replayed_s"]
    totals = found.groupby([*keys, "recorded_on", "live", "shown"], sort=False)[times].sum(min_count=1).reset_index()
    data = totals[totals["shown"]][[*keys, "recorded_on", "recorded_s", "replayed_s"]]
    live = totals[totals["live"]].rename(columns={"measured_s": "live_s"})[[*keys, "live_s"]]
    others = totals[~totals["shown"] & ~totals["live"] & totals["measured_s"].notna()]
    errors = (others["replayed_s"] / others["measured_s"] - 1).map(_signed_percent).astype("str")
    texts = (others["recorded_on"] + " " + errors).groupby([others[key] for key in keys], sort=False)
    others_texts = texts.agg(", ".join).rename("others").reset_index()
    data = data.merge(live, on=keys, how="left").merge(others_texts, on=keys, how="left").fillna({"others": "–"})
    data = data.sort_values("program", key=lambda names: pd.factorize(names)[0], kind="stable", ignore_index=True)
    columns = (
        Column(("program",), "Program", align_right=False, hide_repeats=True),
        Column(("phase",), "Phase", align_right=False),
        Column(("drive",), "Drive", align_right=False),
        Column(("recorded_on",), "Recorded on", align_right=False),
        Column(("recorded_s",), "Recorded", three_digits, "s", "Duration"),
        Column(("replayed_s",), "Replay", three_digits, "s", "Duration"),
        Column(("live_s",), "Live", three_digits, "s", "Duration"),
        Column(("others",), "Errors of replays of recordings on other drives", align_right=False),
    )
    return Table(data, columns, "program")


def _signed_percent(error: float) -> str:
    return f"{100 * error:+.1f} %".replace("-", "−")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def recordings_text(found: pd.DataFrame) -> str:
    """Return a paragraph about the errors of replays on the recorded drive and on other drives.

    Args:
        found: The durations, as `recorded_runs` returns them.
    """
    same = found[found["on_this_drive"]]
    others = found[~found["on_this_drive"] & found["error"].notna()]
    largest = max(same["error"].abs().max(), same["latency_error"].abs().max())
    sentences = []
    if len(same):
        sentences.append(
            f"On the recorded drive, the durations of all {len(same)} runs and the mean latencies differ from the"
            f" recording by at most {_percent(largest)}."
        )
    if len(others):
        errors = others["error"].abs()
        worst = others.iloc[int(errors.to_numpy().argmax())]
        hidden = errors[others["one_at_a_time"]]
        sentences.append(
            f"On another drive, the absolute error of a run's duration has a median of {_percent(errors.median())} over"
            f" {len(others)} runs, and is at most 10 % for {100 * (errors <= 0.1).mean():.0f} % of them. The largest is"
            f" {100 * errors.max():.0f} %: {worst['program']}, {worst['phase']}, recorded on {worst['recorded_on']} and"
            f" replayed on {worst['drive']}."
        )
        open_errors = errors[~others["one_at_a_time"]]
        if len(hidden) and len(open_errors):
            sentences.append(
                f"The median is {_percent(hidden.median())} if the recorded drive held one request at a time and the"
                f" other holds several ({len(hidden)} runs), and {_percent(open_errors.median())} otherwise."
            )
    return " ".join(sentences)
