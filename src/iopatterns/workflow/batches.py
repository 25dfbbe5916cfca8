"""Group the cells of a study into batches: the cells that one job measures.

A cell is one configuration: a drive, its settings and a workload.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from iopatterns.configuration import grid, kinds
from iopatterns.raw.cells import canonical_json
from iopatterns.workflow import forecast
from iopatterns.workflow.planned_cells import Cells

# A batch should take long in comparison with the start of its job, and be short enough for several cores to share a run
# evenly. Its command line must be shorter than the kernel's limit for one word (MAX_ARG_STRLEN, 128 KiB).
_BATCH_S, _BATCH_CHARACTERS = 8.0, 90_000
# The time limit of a cluster's job is _JOB_SLACK times the estimate for its cells, plus _JOB_START_S for starting
# Snakemake twice and waiting for a drive that is in use.
_JOB_START_S, _JOB_SLACK = 600.0, 4.0
# A lower limit of the write rate of a drive, for the time in which the drive is filled
_SLOWEST_WRITE_BYTES_PER_S = 2e7


@dataclass(frozen=True)
class Batch:
    """Cells of one study on one drive that one Snakemake job measures in turn.

    A cell is one configuration: a drive, its settings and a workload.

    Attributes:
        name: The name of the job's rule, such as ``measure_saif2020_1``.
        drive: The name of the drive.
        study: The name of the study.
        cells: The cells, in the order in which they are measured.
    """

    name: str
    drive: str
    study: str
    cells: tuple[grid.Cell, ...]


def study_batches(cells: Cells, study: str) -> list[Batch]:
    """Return the batches of a study: the groups of cells that one job each measures.

    A cell is one configuration: a drive, its settings and a workload. A batch has cells of one drive, in the order of
    the study's file. Its cells together take an estimated eight seconds at most, and a longer cell has a batch of its
    own. Cells on archives, which are drives that were measured elsewhere, are in no batch.

    The batches depend on the configuration only, and not on existing raw files. A job on another host therefore
    computes the same batches.

    Args:
        cells: All cells of the run.
        study: The name of the study.
    """
    found: list[list[grid.Cell]] = []
    room_s, room_characters, drive = 0.0, 0, ""
    for cell in cells.of_study(study):
        if kinds.is_archived(cells.config.drives[cell.drive]):
            continue
        seconds = _measuring_s(cells, [cell])
        # each word takes three more bytes: two quotes and a blank
        words = [canonical_json(cell.specification), *cells.raw_files([cell])]
        characters = sum(len(word) + 3 for word in words)
        if cell.drive != drive or seconds > room_s or characters > room_characters:
            found.append([])
            room_s, room_characters, drive = _BATCH_S, _BATCH_CHARACTERS, cell.drive
        room_s, room_characters = room_s - seconds, room_characters - characters
        found[-1].append(cell)
    return [
        Batch(f"measure_{study}_{number}", batch[0].drive, study, tuple(batch))
        for number, batch in enumerate(found, start=1)
    ]


def batches_by_name(cells: Cells) -> dict[str, Batch]:
    """Return the batches of all studies by name, such as ``measure_saif2020_1``.

    A batch is a group of cells (configurations to measure) that one Snakemake job measures.

    Args:
        cells: All cells of the run.
    """
    return {batch.name: batch for study in cells.studies for batch in study_batches(cells, study)}


def time_limit_min(cells: Cells, batch: Batch, attempt: int) -> int:
    """Return the time limit in minutes of a cluster job that measures a batch.

    A batch is a group of cells (configurations to measure). The limit is a generous multiple of the estimated duration,
    rounded up. It is proportional to the number of the attempt.

    Args:
        cells: All cells of the run.
        batch: The batch.
        attempt: The number of the attempt to run the job, from 1.
    """
    seconds = _measuring_s(cells, batch.cells) + forecast.preconditioning_s(cells, batch.drive)
    if kinds.is_real(cells.config.drives[batch.drive]):  # the drive may have to be filled first
        seconds += cells.config.file_size_bytes / _SLOWEST_WRITE_BYTES_PER_S
    return math.ceil(attempt * (_JOB_START_S + _JOB_SLACK * seconds) / 60)


def recorded_traces(batch: Batch) -> list[str]:
    """Return the paths of the traces that a batch replays and that this run records.

    A trace lists requests to a drive. Replayed traces that exist before the run are left out. Each path is returned
    once, relative to the project's folder, such as ``results/traces/kapoor/scale-fsync-0.parquet``.

    Args:
        batch: A group of cells (configurations to measure) that one job measures.
    """
    replays = (cell.specification.get("replay") for cell in batch.cells)
    return list(dict.fromkeys(replay["trace"] for replay in replays if replay and "made_of" in replay))


def specification_options(cells: Iterable[grid.Cell]) -> list[str]:
    """Return command line options of `iopatterns measure`, one for each cell.

    A cell is one configuration: a drive, its settings and a workload. An option is ``--specification=`` with the cell's
    specification as JSON: ``--specification={"drive":{…},"fio":{…},…}``.

    Args:
        cells: The cells, in the order of the options.
    """
    return [f"--specification={canonical_json(cell.specification)}" for cell in cells]


def job_message(cells: Cells, of_job: Iterable[grid.Cell]) -> str:
    """Return the message that announces a job to the user.

    The message has a line for each cell that is still to be measured, such as ``Measuring saif2020 on px05smb040:
    randread-4k-q1-j1-1a2b3c4d``. If all cells have been measured, the message says that the job checks whether they are
    complete.

    Args:
        cells: All cells of the run.
        of_job: The cells of the job.
    """
    of_job = list(of_job)
    lines = [f"Measuring {cell.study} on {cell.drive}: {cell.name}" for cell in cells.unfinished(of_job)]
    return "\n".join(lines) or f"Checking that {len(of_job)} cells are complete"


def _measuring_s(cells: Cells, of_batch: Iterable[grid.Cell]) -> float:
    return sum(forecast.measuring_s(cells, cell, cells.completions[cell.folder].repetitions) for cell in of_batch)
