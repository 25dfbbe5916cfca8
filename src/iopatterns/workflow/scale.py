"""Plan and record measurements at the scale of the sources.

The default run measures less than the sources did: smaller files, shorter times. The cells of a study are therefore
also measured at the scale that the source states (``source_scale`` in the file of the study). A cell is one
configuration: a drive, its settings and a workload.

The results are the committed scale records, data/scale/<study>.yaml. The default run is compared with the records.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import committed_records, config, grid
from iopatterns.configuration.source_scale import ScaledCell, shorter_cells
from iopatterns.workflow import planned_cells

SCALE_FOLDER = "results/scale"
SCALE_RAW_FOLDER = f"{SCALE_FOLDER}/raw"
# Repetitions of each cell at the scale of the source
SCALE_REPETITIONS = 1
_SIGNIFICANT_DIGITS = 6
_HEAD = """\
# What the cells of the study give at the scale of the source, where the default run measures less: one repetition each,
# bandwidth in MB/s, rates in IOPS, latency in ms, and how long the repetition lasted. `snakemake --cores 2 scale` makes
# this file. `made_from` has checksums that show whether the file is stale.
"""


class ScaleError(IoPatternsError):
    """The error raised if the default run differs from the measurement at the scale of the source.

    The message lists the cells, and says what to change in the file of the study.
    """


def cells_at_scale(conf: config.Config) -> planned_cells.Cells:
    """Return the cells to measure at the scale of the sources.

    These are the cells for which the default run measures less than the source did. The raw files of the cells are in
    results/scale/raw.

    Args:
        conf: The configuration.
    """
    by_study: dict[str, dict[str, grid.Cell]] = {}
    for study in conf.studies:
        if shorter := shorter_cells(conf, study):
            by_study[study] = {each.at_scale.folder: each.at_scale for each in shorter}
    folders = [folder for cells in by_study.values() for folder in cells]
    completion = planned_cells.Completion(SCALE_REPETITIONS, planned_cells.StopReason.CONFIGURATION)
    completions = dict.fromkeys(folders, completion)
    return planned_cells.Cells(
        dataclasses.replace(conf, at_source_scale=True),
        by_study,
        completions,
        modified_ns={folder: {} for folder in folders},
        raw_folder=SCALE_RAW_FOLDER,
    )


def record_scale(root: Path, overrides: Mapping[str, Any], results: str) -> str:
    """Write the scale records, and compare them with the measurements of the default run.

    A record, data/scale/<study>.yaml, has the results of all cells of which the default run measures less than the
    source did. Studies without such cells have no record.

    Args:
        root: The project's folder.
        overrides: Values that replace top-level keys of config/config.yaml: ``{"runtime": "1 s"}``; empty for none.
        results: The results folder of the default run. It has measurements/<study>.parquet for each study. The
            measurements at scale are in `SCALE_FOLDER`, in the same format.

    Returns:
        Text for a terminal. It has a line for each study with its agreement, and a line for each written record.

    Raises:
        ScaleError: A cell of the default run differs from the record, and the file of the study gives no reason.
        ConfigError: The configuration is invalid.
    """
    from iopatterns.analysis import quantities
    from iopatterns.judging import scale_agreement

    conf = config.load_config(root, overrides)
    lines, problems = [], []
    for study in conf.studies:
        shorter = shorter_cells(conf, study)
        if not shorter:
            (root / committed_records.SCALE_RECORDS.file(study)).unlink(missing_ok=True)
            continue
        content = {
            "executions": SCALE_REPETITIONS,
            "made_from": scale_agreement.record_checksums(conf, study, shorter),
            "cells": _recorded_cells(root, study, shorter),
        }
        lines.append(committed_records.SCALE_RECORDS.write(root, study, _HEAD, content, flow=["cells"]))
        executions = quantities.read_executions(root / f"{results}/measurements/{study}.parquet")
        agreement = scale_agreement.scale_agreement(conf, study, executions)
        lines += scale_agreement.agreement_lines(study, agreement)
        problems += scale_agreement.unexplained_lines(study, agreement)
    text = "\n".join(lines)
    if problems:
        raise ScaleError("\n".join([text, *problems]))
    return text


def _recorded_cells(root: Path, study: str, shorter: Iterable[ScaledCell]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the values of cells at the scale of the source, by experiment, drive and levels.

    A cell has the compared quantities that it measured, and ``seconds``: how long the repetition lasted on the drive.
    Cells whose settings the drive rejects are left out.

    Args:
        root: The project's folder.
        study: The name of the study.
        shorter: The cells.
    """
    import pandas as pd

    from iopatterns.analysis import quantities
    from iopatterns.judging import scale_agreement

    file = root / SCALE_FOLDER / f"{study}.parquet"
    measured = scale_agreement.rows_by_cell(quantities.read_executions(file))
    seconds = pd.read_parquet(file).groupby(["drive", "cell"])["runtime_ms"].max() / 1000
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for experiment, levels, _, cell in shorter:
        if cell.folder not in measured:
            continue
        names = scale_agreement.compared_quantities(root, study, experiment)
        values = {name: scale_agreement.values_of(measured[cell.folder], name) for name in names}
        # a cell without reads has no rate of reads
        numbers = {name: float(of_runs[0]) for name, of_runs in values.items() if any(of_runs)}
        numbers["seconds"] = float(seconds[cell.drive, cell.name])
        rounded = {name: float(f"{number:.{_SIGNIFICANT_DIGITS}g}") for name, number in numbers.items()}
        found.setdefault(experiment, {}).setdefault(cell.drive, {})[levels] = rounded
    return found
