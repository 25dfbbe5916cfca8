"""Compare the default run with measurements at the scale of the sources.

The default run measures less than the sources did: smaller files, shorter times. The cells of a study are therefore
also measured at the scale that the source states (``source_scale`` in the file of the study). A cell is one
configuration: a drive, its settings and a workload.

The results are the committed scale records, data/scale/<study>.yaml. The default run is compared with the records.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from iopatterns.base import yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import config, grid, kinds, sources, study_files
from iopatterns.configuration.factors import FACTORS
from iopatterns.workflow import committed_records, planned_cells

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

SCALE_FOLDER = "results/scale"
RAW_FOLDER = f"{SCALE_FOLDER}/raw"
COMMAND = "snakemake --cores 2 scale"
# Repetitions of each cell at the scale of the source
SCALE_REPETITIONS = 1
# The interval of the default run is widened to this share of the mean, because the repetitions on a simulated drive
# differ in their random offsets only, and many such repetitions have an arbitrarily narrow interval.
TOLERANCE = 0.02
_SIGNIFICANT_DIGITS = 6
_HEAD = """\
# What the cells of the study give at the scale of the source, where the default run measures less: one repetition each,
# bandwidth in MB/s, rates in IOPS, latency in ms. `snakemake --cores 2 scale` makes this file. `made_from` has
# checksums that show whether the file is stale.
"""


class ScaleError(IoPatternsError):
    """The error raised if the default run differs from the measurement at the scale of the source.

    The message lists the cells, and says what to change in the file of the study.
    """


class ScaledCell(NamedTuple):
    """A cell of the default run, and the cell that measures the same at the scale of the source.

    A cell is one configuration: a drive, its settings and a workload.

    Attributes:
        experiment: The name of the experiment.
        levels: The levels of the experiment, as text: ``rw=randwrite bs=4k``.
        default: The cell of the default run.
        at_scale: The cell at the scale of the source.
    """

    experiment: str
    levels: str
    default: grid.Cell
    at_scale: grid.Cell


def _is_stated(body: config.ExperimentConfig) -> bool:
    """Return whether the file of a study states the scale at which the source ran an experiment."""
    return isinstance(body.get("source_scale"), dict)


def shorter_cells(conf: config.Config, study: str) -> list[ScaledCell]:
    """Return the cells on simulated drives of which the default run measures less than the source did.

    A cell is one configuration: a drive, its settings and a workload. A cell that several experiments contain is
    returned for each of them. Replays have the scale of their recordings, and are left out.

    Args:
        conf: The configuration.
        study: The name of the study.
    """
    drives = {name: entry for name, entry in conf.drives.items() if kinds.is_simulated(entry)}
    conf = dataclasses.replace(conf, drives=drives)
    at_scale = dataclasses.replace(conf, at_source_scale=True)
    found = []
    for experiment, body in conf.studies[study]["experiments"].items():
        if _is_stated(body) and "replay" not in body:
            both = [grid.experiment_cells(each, study, experiment) for each in (conf, at_scale)]
            found += [
                ScaledCell(experiment, _levels_text(body["vary"], default), default, scaled)
                for default, scaled in zip(*both, strict=True)
                if default.specification != scaled.specification
            ]
    return found


def _levels_text(vary: Mapping[str, Any], cell: grid.Cell) -> str:
    given = {**cell.specification["fio"], **cell.specification.get("settings", {})}
    return " ".join(f"{name}={grid.level_text(name, given[name])}" for name in vary if name in FACTORS)


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
        raw_folder=RAW_FOLDER,
    )


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
    from iopatterns.analysis import published, quantities

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


def _sums(conf: config.Config, study: str, shorter: Iterable[ScaledCell]) -> dict[str, str]:
    """Return checksums of everything that the cells of a study at the scale of the source depend on.

    The checksum of the study's file covers the specifications of these cells, and therefore the seed, too.
    """
    cells = [each.at_scale for each in shorter]
    specifications = [
        {**cell.specification, "drive": {**cell.specification["drive"], "model_digest": "", "set": {}}}
        for cell in cells
    ]
    sums = committed_records.drive_checksums({cell.drive: conf.drives[cell.drive] for cell in cells})
    return {**sums, study_files.GRID.format(study=study): committed_records.checksum(specifications)}


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

    conf = config.load_config(root, overrides)
    lines, problems = [], []
    for study in conf.studies:
        file, shorter = study_files.SCALE.format(study=study), shorter_cells(conf, study)
        if not shorter:
            (root / file).unlink(missing_ok=True)
            continue
        measured = _by_cell(quantities.read_executions(root / SCALE_FOLDER / f"{study}.parquet"))
        values: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
        for experiment, levels, _, cell in shorter:
            if cell.folder in measured:  # not if the drive rejects the settings of the cell
                of_drive = values.setdefault(experiment, {}).setdefault(cell.drive, {})
                of_drive[levels] = {
                    name: float(f"{of_runs[0]:.{_SIGNIFICANT_DIGITS}g}")
                    for name in compared_quantities(root, study, experiment)
                    if any(of_runs := _values(measured[cell.folder], name))  # a cell without reads has no rate of reads
                }
        content = {"executions": SCALE_REPETITIONS, "made_from": _sums(conf, study, shorter), "cells": values}
        lines.append(committed_records.write_record(root, file, _HEAD, content, flow=["cells"]))
        executions = quantities.read_executions(root / f"{results}/measurements/{study}.parquet")
        agreement = scale_agreement(conf, study, executions)
        lines.append(agreement_text(study, agreement))
        problems += unexplained_lines(study, agreement)
    text = "\n".join(lines)
    if problems:
        raise ScaleError("\n".join([text, *problems]))
    return text


def _by_cell(executions: "pd.DataFrame") -> dict[str, "pd.DataFrame"]:
    """Return the repetitions of each cell, by the folder of the cell below data/raw."""
    groups = executions.groupby(["drive", "study", "cell"], sort=False)
    return {"/".join(map(str, key)): rows for key, rows in groups}


def _values(rows: "pd.DataFrame", quantity: str) -> "npt.NDArray[np.float64]":
    """Return the values of a quantity in some repetitions, without missing values."""
    from iopatterns.analysis import quantities

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
          at_scale (the record), mean, low and high (of the default run, not widened), error_percent (of the default run
          against the record), agrees, and because (the reason in the file of the study, or an empty text)
        - ``stale``: the sorted names of the inputs that have changed since the record was made

    Raises:
        RecordError: The record is invalid.
    """
    experiments = conf.studies[study]["experiments"]
    if not any("source_scale" in body for body in experiments.values()):
        return {}
    file = study_files.SCALE.format(study=study)
    record = committed_records.read_record(conf.root, file, COMMAND, "cells") or {"made_from": {}, "cells": {}}
    measured, shorter = _by_cell(executions), shorter_cells(conf, study)
    compared: dict[str, dict[str, dict[str, Any]]] = {}  # by folder of the cell and quantity
    for each in shorter:
        of_drive = record["cells"].get(each.experiment, {}).get(each.default.drive, {})
        if each.default.folder not in measured:
            continue
        for quantity, value in of_drive.get(each.levels, {}).items():
            row = _comparison(conf, each, quantity, value, _values(measured[each.default.folder], quantity))
            compared.setdefault(each.default.folder, {}).setdefault(quantity, row)
    others = measured.keys() - {each.default.folder for each in shorter}
    stated = {name for name, body in experiments.items() if _is_stated(body)}
    same = [folder for folder in others if stated & set(str(measured[folder]["experiments"].iloc[0]).split())]
    every_row = [row for rows in compared.values() for row in rows.values()]
    return {
        "tolerance": TOLERANCE,
        "same": len(same),
        "not_stated": len(others) - len(same),
        "shorter": len(compared),
        "agree": sum(all(row["agrees"] for row in rows.values()) for rows in compared.values()),
        "unknown": len(measured) - len(others) - len(compared),
        "scales": list(_scales(experiments)),
        "worst": max(every_row, key=lambda row: abs(row["error_percent"]), default=None),
        "differing": [row for row in every_row if not row["agrees"]],
        "stale": committed_records.stale_inputs(record, _sums(conf, study, shorter)),
    }


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
    from iopatterns.analysis import quantities, statistics

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
        "mean": mean,
        "low": low,
        "high": high,
        "error_percent": 100 * (mean / at_scale - 1),
        "agrees": agrees,
        "because": "" if agrees else scale.get("differs", ""),
    }


def _scales(experiments: Mapping[str, config.ExperimentConfig]) -> Iterator[dict[str, Any]]:
    """Yield the stated scales of a study, each with the experiments that have it."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, body in experiments.items():
        if _is_stated(body):
            scale: Any = body["source_scale"]
            found.setdefault((scale["place"], _scale_text(scale)), []).append(name)
    for (place, says), names in found.items():
        yield {"experiments": names, "place": place, "says": says}


def _scale_text(scale: Any) -> str:
    """Return a stated scale in words, such as ``40 GiB, one pass``; empty if the default run has the scale."""
    parts = [str(scale["file_size"])] if "file_size" in scale else []
    parts += [str(scale["runtime"])] if "runtime" in scale else []
    parts += ["one pass"] if scale.get("one_pass") else []
    parts += [f"{scale['regions']} regions"] if "regions" in scale else []
    return ", ".join([*parts, *(f"{name} {value}" for name, value in scale.get("fio", {}).items())])


def agreement_text(study: str, agreement: Mapping[str, Any]) -> str:
    """Return a line that says how far the default run of a study agrees with its scale record.

    Args:
        study: The name of the study.
        agreement: The result of `scale_agreement`, not empty.
    """
    counts = {
        "same": "have the scale of the source",
        "unknown": f"are shorter and not in {study_files.SCALE.format(study=study)} (make it: {COMMAND})",
        "not_stated": "have no stated scale",
    }
    parts = [f"{agreement['agree']} of {agreement['shorter']} shorter cells agree with the scale of the source"]
    parts += [f"{agreement[name]} {text}" for name, text in counts.items() if agreement[name]]
    worst = agreement["worst"]
    largest = f"; largest error {worst['error_percent']:+.1f} % ({_row_text(worst)})" if worst else ""
    return f"{study}: {', '.join(parts)}{largest}"


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
            " of the source. Lengthen it, or add `in_default_run: true` to the source_scale of the experiment, or state"
            " the reason there as `differs: …`:"
        )
        lines += [
            f"  {row['quantity']} on {row['drive']}, {row['levels']}: {row['mean']:.4g} {row['unit']}, at the scale of"
            f" the source {row['at_scale']:.4g} {row['unit']} ({row['error_percent']:+.1f} %)"
            for row in rows
        ]
    return lines


def _row_text(row: Mapping[str, Any]) -> str:
    return f"{row['quantity']} of {row['experiment']} on {row['drive']}, {row['levels']}"
