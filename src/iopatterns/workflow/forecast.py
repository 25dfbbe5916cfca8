"""Forecast a run: repetitions, duration, and bytes written to each drive.

A repetition is one run of fio for a cell. A cell is one configuration: a drive, its settings and a workload.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from iopatterns.base import units
from iopatterns.configuration import grid, kinds
from iopatterns.measuring import fio, machine
from iopatterns.measuring.drives.precondition import MAX_ROUNDS
from iopatterns.workflow import hosts
from iopatterns.workflow.planned_cells import Cells, archives_by_drive

# Duration in seconds: of starting and ending fio on a real drive; of a repetition on a simulated drive, and of
# simulating a second of virtual time, or a request
_FIO_START_STOP_S = 0.35
_TWIN_START_STOP_S, _TWIN_S_PER_S, _TWIN_S_PER_REQUEST = 0.02, 0.04, 1.5e-6
# Duration in seconds: of a step of analysis on two processors, including its start, and of a run between its jobs
_STEP_S, _OVERHEAD_S = 5.0, 8.0
# An upper limit of the write rate of a drive, for the estimate of the bytes written
_WRITE_RATE_BYTES_PER_S = 1e9


@dataclass(frozen=True)
class Forecast:
    """The measurements on a drive that are still to be done.

    Attributes:
        drive: The name of the drive.
        repetitions: The number of missing repetitions of all cells on the drive. A repetition is one run of fio.
        seconds: The estimated duration, with preconditioning.
        written_bytes: An upper limit of the bytes written to the drive, if it writes at most 1 GB/s; 0 for a simulated
            drive.
    """

    drive: str
    repetitions: int
    seconds: float
    written_bytes: int


def measuring_s(cells: Cells, cell: grid.Cell, repetitions: int) -> float:
    """Return the estimated duration in seconds of measuring a cell.

    A cell is one configuration: a drive, its settings and a workload. The estimate includes ramp time, warm-up, and
    starting fio. It does not include preconditioning, see `preconditioning_s`.

    Args:
        cells: All cells of the run.
        cell: The cell.
        repetitions: The number of repetitions (runs of fio) to measure.
    """
    if kinds.is_simulated(cells.config.drives[cell.drive]):
        specification = cell.specification
        is_one_pass = not (specification["runtime_ms"] or "replay" in specification)
        requests = fio.one_pass_bytes(specification) // specification["fio"]["bs"] if is_one_pass else 0
        per_repetition_s = _TWIN_START_STOP_S + _TWIN_S_PER_REQUEST * requests
        return repetitions * per_repetition_s + _TWIN_S_PER_S * _io_s(cell, repetitions)
    starts = repetitions + bool(repetitions and cell.specification["warmup_ms"])
    return starts * _FIO_START_STOP_S + _io_s(cell, repetitions)


def preconditioning_s(cells: Cells, drive: str) -> float:
    """Return the longest time in seconds that preconditioning a drive may take.

    With ``precondition: steady`` in config/config.yaml, a whole disk is written at random before its first measurement
    until its rate is steady. The result is the time limit of these writes. The result is 0 for a file or a simulated
    drive, and for any other value of ``precondition``.

    Args:
        cells: All cells of the run.
        drive: The name of the drive.
    """
    is_long = kinds.kind_of(cells.config.drives[drive]).is_preconditioned and cells.config.precondition == "steady"
    return MAX_ROUNDS * cells.config.precondition_round_ms / 1000 if is_long else 0.0


def drive_forecasts(cells: Cells) -> list[Forecast]:
    """Return a forecast for each configured drive, in the order of the configuration.

    A drive with nothing to measure has a forecast of 0 repetitions. Archives, which are drives that were measured
    elsewhere, are left out.
    """
    missing: dict[str, list[tuple[grid.Cell, int]]] = {
        drive: [] for drive, entry in cells.config.drives.items() if not kinds.is_archived(entry)
    }
    for cell in cells:
        if cell.drive in missing:
            missing[cell.drive].append((cell, len(cells.missing([cell]))))
    return [_of_drive(cells, drive, counts) for drive, counts in missing.items()]


def forecast_text(cells: Cells) -> str:
    """Return the forecast of all drives and of the run as text for the terminal.

    The text has a line for each drive with missing repetitions, and for each drive that no experiment measures. It ends
    with the estimated duration of the run. `snakemake plan` prints the text.
    """
    lines, forecasts = [], drive_forecasts(cells)
    in_use, studies = {cell.drive for cell in cells}, ", ".join(cells.studies)
    for each in forecasts:
        entry = cells.config.drives[each.drive]
        if each.drive not in in_use:
            lines.append(f"{each.drive}: nothing to measure, because no experiment of {studies} names it")
            continue
        if not each.repetitions:
            continue
        line = f"{each.drive}: {each.repetitions} repetitions, about {units.format_duration(each.seconds)}"
        if each.written_bytes:
            line += f", at most {each.written_bytes / 1e9:.1f} GB written (at 1 GB/s){_wear(entry, each.written_bytes)}"
        lines.append(line + (", simulated: nothing is written" if kinds.is_simulated(entry) else ""))
    lines += [f"{drive}: unpacked from {archive.path}" for drive, archive in archives_by_drive(cells.config).items()]
    if not any(each.repetitions for each in forecasts):
        lines.append("All measurements are complete.")
    lines += own_repetitions_lines(cells)
    steps, together = _steps(cells), cells.config.independent_drives
    if steps:
        lines.append(f"Then {steps} steps of analysis and report, about {units.format_duration(_steps_s(steps))}.")
    total = f"Total: about {units.format_duration(run_s(cells, forecasts))} with one drive after the other"
    if len(together) > 1:
        total += f"; less with --cores {len(together)}, which measures {', '.join(together)} at the same time"
    return "\n".join([*lines, f"{total}."])


def own_repetitions_lines(cells: Cells) -> list[str]:
    """Return a line that lists the studies whose own file sets the repetitions.

    The result is a list with one line, such as ``Repetitions of a cell: 10; set by the study's file: kapoor 1``. The
    list is empty if there is no such study.
    """
    own = ", ".join(f"{study} {repetitions}" for study, repetitions in cells.own_repetitions().items())
    return [f"Repetitions of a cell: {cells.config.repetitions}; set by the study's file: {own}"] if own else []


def run_s(cells: Cells, forecasts: Iterable[Forecast]) -> float:
    """Return the estimated duration of a run in seconds, with analysis and report.

    The result is 0 if there is nothing to measure, analyse or report.

    Args:
        cells: All cells of the run.
        forecasts: The forecasts of the drives, see `drive_forecasts`.
    """
    steps = _steps(cells)
    seconds = sum(each.seconds for each in forecasts)
    return seconds + _steps_s(steps) if seconds or steps else 0.0


def _of_drive(cells: Cells, drive: str, missing: Iterable[tuple[grid.Cell, int]]) -> Forecast:
    conf, counts = cells.config, [(cell, count) for cell, count in missing if count]
    repetitions = sum(count for _, count in counts)
    seconds = sum(measuring_s(cells, cell, count) for cell, count in counts)
    if not repetitions or kinds.is_simulated(conf.drives[drive]):
        return Forecast(drive, repetitions, seconds, 0)
    kind, before_s = kinds.kind_of(conf.drives[drive]), preconditioning_s(cells, drive)
    writing_s = sum(_io_s(cell, count) for cell, count in counts if not fio.only_reads(cell.specification["fio"]))
    is_filled = kind.is_filled or (kind.is_preconditioned and conf.precondition != "none")
    written_bytes = int((writing_s + before_s) * _WRITE_RATE_BYTES_PER_S) + is_filled * conf.file_size_bytes
    return Forecast(drive, repetitions, seconds + before_s, written_bytes)


def _io_s(cell: grid.Cell, repetitions: int) -> float:
    """Return how many seconds the workload of a cell runs.

    Ramp time and warm-up are included.

    Args:
        cell: The cell.
        repetitions: The number of repetitions.
    """
    specification = cell.specification
    ramp_s, warm_up_s = specification["fio"].get("ramp_time", 0) / 1e6, specification["warmup_ms"] / 1000
    before_s = ramp_s + warm_up_s if repetitions and warm_up_s else 0.0
    return float(repetitions * (ramp_s + specification["runtime_ms"] / 1000) + before_s)


def _steps(cells: Cells) -> int:
    """Return the number of steps of analysis and report after measuring.

    There are two steps for each study with new measurements, one step for the scorecard, and one for the report. The
    number is 0 if nothing changed and the report exists.
    """
    results = cells.root / cells.config.results
    changed = [
        study
        for study in cells.studies
        if not (results / f"numbers/{study}.json").exists() or cells.missing(cells.of_study(study))
    ]
    return 2 * len(changed) + 2 if changed or not (results / "report.pdf").exists() else 0


def _steps_s(steps: int) -> float:
    return _OVERHEAD_S + steps * _STEP_S


def _wear(entry: kinds.DriveEntry, written_bytes: int) -> str:
    """Return the written bytes in percent of a disk's capacity, as the end of a line.

    An example is ``, 2 % of its capacity``. The text is empty for a file, and for a disk that is unknown here.

    Args:
        entry: The entry of the drive in config/drives.yaml.
        written_bytes: The number of bytes to be written.
    """
    if not (kinds.is_whole_disk(entry) and hosts.is_on_this_host(entry)):
        return ""
    try:
        size_bytes = machine.disk_facts(Path(entry["path"]))["size_bytes"]
    except OSError:  # the pre-write checks report a missing disk
        return ""
    return f", {100 * written_bytes / size_bytes:.2g} % of its capacity" if size_bytes else ""
