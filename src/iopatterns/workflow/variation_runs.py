"""Measure cells under another configuration than that of the default run.

A cell is one configuration: a drive, its settings and a workload. The results have the format of the files in
results/measurements. This module is separate from the modules that read committed records, so that the rule that judges
claims does not depend on modules that measure.
"""

import functools
from collections.abc import Iterable
from pathlib import Path

from iopatterns.analysis import collect
from iopatterns.base import files
from iopatterns.base.signals import interruptible
from iopatterns.configuration import grid
from iopatterns.measuring.cell import measure_cell
from iopatterns.raw import tuning_steps


def measure_study(root: Path, study: str, wanted: Iterable[grid.Cell], repetitions: int, output: Path) -> None:
    """Measure cells of a study, and write their measurements.

    A cell is one configuration: a drive, its settings and a workload. Repetitions whose raw files exist are not
    measured again.

    Args:
        root: The project's folder.
        study: The name of the study.
        wanted: The cells, at least one.
        repetitions: The number of repetitions of each cell.
        output: The folder for the results. It gets ``<study>.parquet`` and ``<study>.tuning.json``, in the format of
            the files in results/measurements, and the raw files in its folder ``raw``.

    Raises:
        CollectError: No cell was measured, because the drives rejected their settings.
        IoPatternsError: A cell could not be measured, see `measure_cell`.
    """
    wanted = list(wanted)
    raws: list[Path] = []
    with interruptible():
        for cell in wanted:
            of_cell = [output / "raw" / cell.folder / f"{name}.json" for name in grid.repetition_names(repetitions)]
            measure_cell(root, cell.specification, of_cell)
            raws += of_cell
    experiments = {cell.folder: cell.experiments for cell in wanted}
    metadata = collect.load_metadata(raws)
    table = collect.measurement_table(metadata, experiments)
    files.write_atomically(output / f"{study}.parquet", functools.partial(table.to_parquet, index=False))
    tuning_steps.write_tuning_records(output / f"{study}.tuning.json", collect.tuning_records(metadata, experiments))
