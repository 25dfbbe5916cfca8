"""The scale at which a source measured, where the default run measures less.

The default run measures less than the sources did: smaller files, shorter times. The file of a study states the
source's scale under ``source_scale``.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from iopatterns.configuration import config, grid, kinds
from iopatterns.configuration.factors import FACTORS


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


def shorter_cells(conf: config.Config, study: str) -> list[ScaledCell]:
    """Return the cells of which the default run measures less than the source did.

    A cell is one configuration: a drive, its settings and a workload. A cell that several experiments contain is
    returned for each of them. Only the simulated drives that a study names have such cells. Replays have the scale of
    their recordings, and are left out.

    Args:
        conf: The configuration.
        study: The name of the study.
    """
    drives = {name: conf.drives[name] for name in conf.drives if name in conf.source_drives}
    drives = {name: entry for name, entry in drives.items() if kinds.is_simulated(entry)}
    conf = dataclasses.replace(conf, drives=drives)
    at_scale = dataclasses.replace(conf, at_source_scale=True)
    found = []
    for experiment, body in conf.studies[study]["experiments"].items():
        if "replay" not in body:
            both = [grid.experiment_cells(each, study, experiment) for each in (conf, at_scale)]
            found += [
                ScaledCell(experiment, _levels_text(body["vary"], default), default, scaled)
                for default, scaled in zip(*both, strict=True)
                if default.specification != scaled.specification
            ]
    return found


def _levels_text(vary: Mapping[str, Any], cell: grid.Cell) -> str:
    """Return the levels of a cell as text, whatever their order in the file of the study."""
    given = {**cell.specification["fio"], **cell.specification.get("settings", {})}
    return " ".join(f"{name}={grid.level_text(name, given[name])}" for name in FACTORS if name in vary)


def stated_scales(experiments: Mapping[str, config.ExperimentConfig]) -> Iterator[dict[str, Any]]:
    """Yield the stated scales of a study, each with the experiments that have it.

    Args:
        experiments: The experiments of the study, by name.

    Yields:
        A mapping with ``experiments`` (their names), ``place`` (where the source states the scale) and ``says`` (the
        scale in words, such as ``40 GiB, one pass``). The words are empty if the default run has the scale.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for name, body in experiments.items():
        scale = body.get("source_scale")
        if isinstance(scale, dict):
            found.setdefault((scale["place"], _scale_text(scale)), []).append(name)
    for (place, says), names in found.items():
        yield {"experiments": names, "place": place, "says": says}


def _scale_text(scale: config.SourceScale) -> str:
    """Return a stated scale in words, such as ``40 GiB, one pass``; empty if the default run has the scale."""
    parts = [str(scale["file_size"])] if "file_size" in scale else []
    parts += [str(scale["runtime"])] if "runtime" in scale else []
    parts += ["one pass"] if scale.get("one_pass") else []
    parts += [f"{scale['regions']} regions"] if "regions" in scale else []
    parts += [f"{name} {value}" for name, value in scale.get("fio", {}).items()]
    parts += [f"on {' and '.join(scale['drives'])}"] if "drives" in scale else []
    return ", ".join(parts)
