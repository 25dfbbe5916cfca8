"""Batches: the cells that one job of the workflow measures."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from iopatterns.configuration import grid, kinds
from iopatterns.raw.cells import canonical_json
from iopatterns.workflow import forecast
from iopatterns.workflow.planned_cells import Cells

# What a job measures: enough that its own start weighs little, little enough that several cores share a run evenly. Its
# command line must fit into what the kernel takes for one word (MAX_ARG_STRLEN, 128 KiB)
_BATCH_S, _BATCH_CHARACTERS = 8.0, 90_000
# A cluster ends a job that exceeds its time limit. The limit is _JOB_START_S, for starting Snakemake twice and waiting
# for a drive that is in use, and _JOB_SLACK times what the job's cells are estimated to take.
_JOB_START_S, _JOB_SLACK = 600.0, 4.0
# A lower limit of the rate at which a drive takes data, for the time in which it is filled
_SLOWEST_WRITE_BYTES_PER_S = 2e7


@dataclass(frozen=True)
class Batch:
    """Cells of a study on one drive that one job measures in turn; `name` is the name of the job's rule."""

    name: str
    drive: str
    study: str
    cells: tuple[grid.Cell, ...]


def study_batches(cells: Cells, study: str) -> list[Batch]:
    """Return the batches of a study, on the drives that are measured.

    The configuration alone decides which cells share a batch, and not what is measured already: a job that starts on
    another host must find the same batches. A drive whose cells take long has one cell in each batch.
    """
    found: list[list[grid.Cell]] = []
    room_s, room_characters, drive = 0.0, 0, ""
    for cell in cells.of_study(study):
        if kinds.is_archived(cells.config.drives[cell.drive]):
            continue
        seconds = _measuring_s(cells, [cell])
        # two bytes for what quoting adds, and the blank between
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
    """Return the batches of all studies by name."""
    return {batch.name: batch for study in cells.studies for batch in study_batches(cells, study)}


def time_limit_min(cells: Cells, batch: Batch, attempt: int) -> int:
    """Return the minutes that a job of a cluster may take for a batch, more with each attempt."""
    seconds = _measuring_s(cells, batch.cells) + forecast.preconditioning_s(cells, batch.drive)
    if kinds.is_real(cells.config.drives[batch.drive]):  # it may have to be filled before
        seconds += cells.config.file_size_bytes / _SLOWEST_WRITE_BYTES_PER_S
    return math.ceil(attempt * (_JOB_START_S + _JOB_SLACK * seconds) / 60)


def recorded_traces(batch: Batch) -> list[str]:
    """Return the traces that the cells of a batch replay and that this run records."""
    replays = (cell.specification.get("replay") for cell in batch.cells)
    return list(dict.fromkeys(replay["trace"] for replay in replays if replay and "made_of" in replay))


def specification_options(cells: Iterable[grid.Cell]) -> list[str]:
    """Return the options by which the measuring command gets the specifications of some cells."""
    return [f"--specification={canonical_json(cell.specification)}" for cell in cells]


def job_message(cells: Cells, of_job: Iterable[grid.Cell]) -> str:
    """Return the message of a job: a line for each of its cells that lacks a raw file."""
    of_job = list(of_job)
    lines = [f"Measuring {cell.study} on {cell.drive}: {cell.name}" for cell in cells.unfinished(of_job)]
    return "\n".join(lines) or f"Checking that {len(of_job)} cells are complete"


def _measuring_s(cells: Cells, of_batch: Iterable[grid.Cell]) -> float:
    return sum(forecast.measuring_s(cells, cell, cells.completions[cell.folder].repetitions) for cell in of_batch)
