"""Compare the default run with measurements at the scale of the sources.

The measurements are in the committed scale records, data/scale/<study>.yaml, which `snakemake scale` makes.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iopatterns.analysis import published, quantities, statistics
from iopatterns.base import yaml_schema
from iopatterns.configuration import committed_records, config, sources, study_files
from iopatterns.configuration.source_scale import ScaledCell, shorter_cells, stated_scales

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

# The interval of the default run is widened to this share of the mean, because the repetitions on a simulated drive
# differ in their random offsets only, and many such repetitions have an arbitrarily narrow interval.
TOLERANCE = 0.02


def compared_quantities(root: Path, study: str, experiment: str) -> list[str]:
    """Return the quantities of an experiment that claims and published values of its source use.

    Args:
        root: The project's folder.
        study: The name of the study.
        experiment: The name of the experiment.

    Returns:
        The names of quantities that each run of fio has, such as ``iops``. Without such a quantity, the list is
        ``["bandwidth"]``.
    """
    folder = root / study_files.PUBLISHED_PLACE.format(study=study)
    named: set[str] = set()
    if sources.has_published(root, study):
        values = published.load_values(folder)
        named |= set(values.loc[values["experiment"] == experiment, "quantity"])
    for check in _checks(root, study):
        if experiment in _named(check, "experiment"):
            named |= _named(check, "of") or {"bandwidth"}
    return [name for name in quantities.QUANTITIES if name in named] or ["bandwidth"]


def _checks(root: Path, study: str) -> Iterator[Any]:
    """Yield the content of each ``check`` and ``checks`` in the claims of a study."""
    file = f"{study_files.PUBLISHED_PLACE.format(study=study)}/claims.yaml"
    if (root / file).exists():
        for claim in yaml_schema.read_yaml(root, file).get("claims", []):
            yield from (claim[key] for key in ("check", "checks") if key in claim)


def _named(content: Any, key: str) -> set[str]:
    """Return the texts of a key in nested mappings and lists."""
    if isinstance(content, dict):
        own = {content[key]} if isinstance(content.get(key), str) else set()
        return own.union(*(_named(each, key) for each in content.values()))
    return set().union(*(_named(each, key) for each in content)) if isinstance(content, list) else set()


def record_checksums(conf: config.Config, study: str, shorter: Iterable[ScaledCell]) -> dict[str, str]:
    """Return checksums of everything that the cells of a study at the scale of the source depend on.

    There is a checksum for each drive, so that a run of some drives is compared with the record of all. It covers the
    specifications of the cells, and therefore the seed, too.

    Args:
        conf: The configuration.
        study: The name of the study.
        shorter: The cells, see `source_scale.shorter_cells`.
    """
    specifications: dict[str, list[dict[str, Any]]] = {}
    for each in shorter:
        specification = each.at_scale.specification
        drive = {**specification["drive"], "model_digest": "", "set": {}}  # the other checksums cover the model
        specifications.setdefault(each.at_scale.drive, []).append({**specification, "drive": drive})
    sums = committed_records.drive_checksums({drive: conf.drives[drive] for drive in specifications})
    file = study_files.GRID.format(study=study)
    return sums | {f"{file} on {drive}": committed_records.checksum(each) for drive, each in specifications.items()}


def rows_by_cell(executions: "pd.DataFrame") -> dict[str, "pd.DataFrame"]:
    """Return the repetitions of each cell, by the folder of the cell below data/raw.

    Args:
        executions: A row for each repetition, as `quantities.read_executions` returns them.
    """
    groups = executions.groupby(["drive", "study", "cell"], sort=False)
    return {"/".join(map(str, key)): rows for key, rows in groups}


def values_of(rows: "pd.DataFrame", quantity: str) -> "npt.NDArray[np.float64]":
    """Return the values of a quantity in some repetitions, without missing values.

    Args:
        rows: A row for each repetition, as `quantities.read_executions` returns them.
        quantity: The name of the quantity.
    """
    found: npt.NDArray[np.float64] = rows[quantities.get_quantity(quantity).column].dropna().to_numpy(dtype="float64")
    return found


def scale_agreement(conf: config.Config, study: str, executions: "pd.DataFrame") -> dict[str, Any]:
    """Return how far the default run of a study agrees with its scale record.

    A cell agrees if each compared quantity of the record is within the confidence interval of the default run. The
    interval is first widened to `TOLERANCE` of the mean on both sides. A cell is one configuration: a drive, its
    settings and a workload.

    Args:
        conf: The configuration of the default run.
        study: The name of the study.
        executions: The measurements of the default run, as `quantities.read_executions` returns them.

    Returns:
        A mapping with these keys. It is empty if the file of the study says nothing of its source's scale.

        - ``tolerance``: `TOLERANCE`
        - ``same``: the number of measured cells that have the scale of the source
        - ``not_stated``: the number of measured cells of experiments that the source did not run, or whose scale it
          does not state
        - ``shorter``: the number of measured cells that are smaller or shorter, and are in the record
        - ``agree``: the number of cells in ``shorter`` that agree
        - ``unknown``: the number of measured cells that are smaller or shorter, and are not in the record
        - ``scales``: the stated scales, each with ``experiments`` (their names), ``place`` and ``says`` (in words)
        - ``worst``: the comparison with the largest error, see below; None without comparisons
        - ``differing``: the comparisons outside the interval. Each has experiment, drive, levels, quantity, unit,
          at_scale (the record), seconds (how long the repetition of the record lasted), mean, low and high (of the
          default run, not widened), error_percent (of the default run against the record), agrees, and because (the
          reason in the file of the study, or an empty text)
        - ``stale``: the sorted names of the inputs that have changed since the record was made

    Raises:
        RecordError: The record is invalid.
    """
    experiments = conf.studies[study]["experiments"]
    if not any("source_scale" in body for body in experiments.values()):
        return {}
    record = committed_records.SCALE_RECORDS.read(conf.root, study) or {"made_from": {}, "cells": {}}
    measured, shorter = rows_by_cell(executions), shorter_cells(conf, study)
    compared: dict[str, dict[str, dict[str, Any]]] = {}  # by folder of the cell and quantity
    for each in shorter:
        folder = each.default.folder
        recorded = record["cells"].get(each.experiment, {}).get(each.default.drive, {}).get(each.levels, {})
        if folder not in measured:
            continue
        for quantity in (name for name in recorded if name != "seconds"):
            row = _comparison(conf, each, quantity, recorded[quantity], values_of(measured[folder], quantity))
            row["seconds"] = recorded["seconds"]
            compared.setdefault(folder, {}).setdefault(quantity, row)
    others = measured.keys() - {each.default.folder for each in shorter}
    same = [folder for folder in others if _has_stated_scale(conf, study, measured[folder].iloc[0])]
    every_row = [row for rows in compared.values() for row in rows.values()]
    return {
        "tolerance": TOLERANCE,
        "same": len(same),
        "not_stated": len(others) - len(same),
        "shorter": len(compared),
        "agree": sum(all(row["agrees"] for row in rows.values()) for rows in compared.values()),
        "unknown": len(measured) - len(others) - len(compared),
        "scales": list(stated_scales(experiments)),
        "worst": max(every_row, key=lambda row: abs(row["error_percent"]), default=None),
        "differing": [row for row in every_row if not row["agrees"]],
        "stale": committed_records.stale_inputs(record, record_checksums(conf, study, shorter)),
    }


def _has_stated_scale(conf: config.Config, study: str, repetition: "pd.Series[Any]") -> bool:
    """Return whether the source states its scale for a cell, in one of the experiments that contain the cell."""
    drive, names = str(repetition["drive"]), str(repetition["experiments"]).split()
    experiments = conf.studies[study]["experiments"]
    stated = [config.stated_scale(experiments[name], drive) for name in names if name in experiments]
    return drive in conf.source_drives and any(stated)


def _comparison(
    conf: config.Config, cell: ScaledCell, quantity: str, at_scale: float, values: "npt.NDArray[np.float64]"
) -> dict[str, Any]:
    """Return the comparison of a quantity, see `scale_agreement`.

    Args:
        conf: The configuration, which has the confidence level and the method of intervals.
        cell: The cell.
        quantity: The name of the quantity.
        at_scale: The value of the record.
        values: The values of the repetitions of the default run.
    """
    mean = float(values.mean())
    low, high, _ = statistics.mean_interval(values, conf.confidence, conf.interval)
    low, high = (mean if math.isnan(end) else end for end in (low, high))  # a single repetition has no interval
    margin = TOLERANCE * abs(mean)
    agrees = min(low, mean - margin) <= at_scale <= max(high, mean + margin)
    scale: Any = conf.studies[cell.default.study]["experiments"][cell.experiment]["source_scale"]
    return {
        "experiment": cell.experiment,
        "drive": cell.default.drive,
        "levels": cell.levels,
        "quantity": quantity,
        "unit": quantities.get_quantity(quantity).unit,
        "at_scale": at_scale,
        "mean": _rounded(mean),
        "low": _rounded(low),
        "high": _rounded(high),
        "error_percent": _rounded(100 * (mean / at_scale - 1)),
        "agrees": agrees,
        "because": "" if agrees else scale.get("differs", ""),
    }


def _rounded(value: float) -> float:
    """Return a number rounded to twelve significant digits, as in all result files."""
    return float(f"{value:.12g}")


def agreement_lines(study: str, agreement: Mapping[str, Any]) -> list[str]:
    """Return lines that say how far the default run of a study agrees with its scale record.

    Further lines say that the record is stale, or incomplete.

    Args:
        study: The name of the study.
        agreement: The result of `scale_agreement`, not empty.
    """
    record = committed_records.SCALE_RECORDS
    shorter, same, not_stated = (agreement[name] for name in ("shorter", "same", "not_stated"))
    parts = [f"{agreement['agree']} of {shorter} shorter cells agree with the scale of the source"] if shorter else []
    parts += [f"{same} cells have the scale of the source"] if same else []
    parts += [f"for {not_stated} cells no scale is stated"] if not_stated else []
    worst = agreement["worst"]
    largest = f"; largest error {worst['error_percent']:+.1f} % ({_row_text(worst)})" if worst else ""
    lines = [f"{study}: {', '.join(parts)}{largest}"] if parts else []
    if agreement["unknown"]:
        lines.append(
            f"{study}: {record.file(study)} lacks {agreement['unknown']} cells that the source measured at a larger"
            f" scale. Make it again: {record.command}"
        )
    if agreement["stale"]:
        lines.append(f"{study}: {record.stale_text(study, agreement['stale'])}")
    return lines


def unexplained_lines(study: str, agreement: Mapping[str, Any]) -> list[str]:
    """Return lines about the cells that differ without a reason in the file of the study.

    Lines are by experiment, and say what to change in that file. The list is empty if all cells agree, or have a
    reason.

    Args:
        study: The name of the study.
        agreement: The result of `scale_agreement`.
    """
    by_experiment: dict[str, list[Mapping[str, Any]]] = {}
    for row in agreement.get("differing", ()):
        if not row["because"]:
            by_experiment.setdefault(row["experiment"], []).append(row)
    lines = []
    for experiment, rows in by_experiment.items():
        lines.append(
            f"{study_files.GRID.format(study=study)}: experiments.{experiment}: the default run differs from the scale"
            " of the source. Give the experiment the `file_size` of the source and a `runtime` up to the seconds below,"
            " or state the reason in its source_scale as `differs: …`:"
        )
        lines += [
            f"  {row['quantity']} on {row['drive']}, {row['levels']}: {row['mean']:.4g} {row['unit']}, and"
            f" {row['at_scale']:.4g} {row['unit']} in {row['seconds']:.4g} s at the scale of the source"
            f" ({row['error_percent']:+.1f} %)"
            for row in rows
        ]
    return lines


def _row_text(row: Mapping[str, Any]) -> str:
    return f"{row['quantity']} of {row['experiment']} on {row['drive']}, {row['levels']}"
