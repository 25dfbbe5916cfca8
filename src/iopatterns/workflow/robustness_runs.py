"""Measure the cells that claims use, with other plausible parameters of the simulated drives.

This module is separate from `robustness`, so that the rule that judges claims does not depend on modules that measure.
"""

import functools
import json
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd

from iopatterns.analysis import collect, quantities
from iopatterns.base import files
from iopatterns.base.messages import say
from iopatterns.base.signals import interruptible
from iopatterns.configuration import committed_records, config, grid
from iopatterns.measuring.cell import measure_cell
from iopatterns.raw import tuning_steps
from iopatterns.raw.cells import specification_digest
from iopatterns.raw.records import Specification
from iopatterns.workflow import ablation, robustness
from iopatterns.workflow.claim_outcomes import ClaimOutcome, StudyClaims

_KEY_FILE, _TUNING_FILE = "key", "tuning.json"
_DIGITS = 8  # of a digest in the name of a cell


class _Runs:
    """The runs of one study in a folder: one table of measurements for each parameter set.

    A table that an earlier, interrupted run has written is not measured again, if it was made from the same inputs.
    """

    def __init__(self, root: Path, study: str, overrides: Mapping[str, Any], folder: Path, key: str) -> None:
        self.root, self.folder, self.study = root, folder, study
        self.conf = ablation.simulated_drives_only(config.load_config(root, overrides))
        self.inputs = robustness.robustness_inputs(self.conf, study)
        key = committed_records.checksum([key, self.inputs, robustness.BATCH_SETS, robustness.SCREENED_CELLS])
        if not (folder / _KEY_FILE).exists() or (folder / _KEY_FILE).read_text(encoding="utf-8") != key:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            files.write_text(folder / _KEY_FILE, key)
        self.claims = StudyClaims.load(root, study, ablation.claims_if_any(root, study))
        self.cells = ablation.cells_used_by_claims(self.conf, study)
        self._measure(robustness.BASELINE, {cell.folder: cell.specification for cell in self.cells})
        self.baseline = self._table(robustness.BASELINE)
        self.tuned = tuning_steps.read_tuning_records(folder / _TUNING_FILE)
        self.used = self.claims.cells_by_claim(self.baseline)
        used = set().union(*self.used.values())
        self.varied = [cell for cell in self.cells if (cell.drive, cell.name) in used]
        drives = list(dict.fromkeys(cell.drive for cell in self.varied))
        self.design = robustness.Design.load(self.conf, drives)

    def screened(self) -> list[grid.Cell]:
        """Return some of the varied cells of each drive, evenly spread."""
        found = []
        for drive in self.design.drives:
            own = [cell for cell in self.varied if cell.drive == drive]
            found += own[:: math.ceil(len(own) / robustness.SCREENED_CELLS)]
        return found

    def complete_table(self, parameters: robustness.ParameterSet) -> pd.DataFrame:
        """Return the repetitions with a parameter set; results that claims do not use are those of the baseline."""
        changed = self.table(parameters, self.varied)
        places = set(zip(changed["drive"], changed["cell"], strict=True))
        kept = [place not in places for place in zip(self.baseline["drive"], self.baseline["cell"], strict=True)]
        return pd.concat([changed, self.baseline[kept]], ignore_index=True)

    def table(self, parameters: robustness.ParameterSet, cells: Sequence[grid.Cell]) -> pd.DataFrame:
        """Return the repetitions of some cells with a parameter set."""
        entries = {drive: self.design.entry(drive, parameters) for drive in self.design.drives}
        specifications = {}
        for cell in cells:
            replaced = {key: each for key, each in entries[cell.drive].items() if key in {"set", "model_digest"}}
            drive = {**cell.specification["drive"], **replaced}
            specifications[cell.folder] = cast(Specification, {**cell.specification, "drive": drive})
        self._measure(parameters.name, specifications)
        return self._table(parameters.name)

    def outcomes(self, table: pd.DataFrame) -> dict[str, ClaimOutcome]:
        """Return the outcome of each claim."""
        return self.claims.outcomes(table, self.tuned)

    def _table(self, name: str) -> pd.DataFrame:
        return quantities.read_executions(self.folder / f"{name}.parquet")

    def _measure(self, name: str, specifications: Mapping[str, Specification]) -> None:
        """Measure one repetition of some cells, unless their table exists.

        Args:
            name: The name of the parameter set.
            specifications: The specifications of the cells, by the folder of the cell.
        """
        output = self.folder / f"{name}.parquet"
        if output.exists():
            return
        raw_folder = self.folder / "raw"
        shutil.rmtree(raw_folder, ignore_errors=True)
        (repetition,) = grid.repetition_names(1)
        raws, names = [], {}
        with interruptible():
            for folder, specification in specifications.items():
                # the name of a cell ends with digits of the digest of its specification
                digest = specification_digest(specification)[:_DIGITS]
                named = f"{folder[:-_DIGITS]}{digest}"
                names[named] = folder
                raw = raw_folder / named / f"{repetition}.json"
                measure_cell(self.root, specification, [raw])
                raws.append(raw)
        experiments_of = {cell.folder: cell.experiments for cell in self.cells}
        experiments = {named: experiments_of[folder] for named, folder in names.items()}
        metadata = collect.load_metadata(raws)
        table = collect.measurement_table(metadata, experiments)
        cells = {Path(named).name: Path(folder).name for named, folder in names.items()}
        if name == robustness.BASELINE:
            records = collect.tuning_records(metadata, experiments)
            tuning_steps.write_tuning_records(self.folder / _TUNING_FILE, records)
        table = table.assign(cell=table["cell"].map(cells))
        files.write_atomically(output, functools.partial(table.to_parquet, index=False))
        shutil.rmtree(raw_folder, ignore_errors=True)


def measure_robustness(
    root: Path,
    study: str,
    overrides: Mapping[str, Any],
    output: Path,
    *,
    built: str = "",
) -> None:
    """Measure the cells that the claims of a study use with sampled parameters, and judge the claims.

    An interrupted measurement continues where it ended. Its tables are beside ``output``, in a folder with the name of
    the study.

    Args:
        root: The project's folder.
        study: The name of the study.
        overrides: Values that replace top-level keys of config/config.yaml: ``{"runtime": "1 s"}``; empty for none.
        output: The file for the content of the robustness record, as JSON.
        built: The checksum of the simulator. Tables of another simulator are measured again.

    Raises:
        ConfigError: The configuration is invalid.
        IoPatternsError: A cell could not be measured, see `measure_cell`.
    """
    runs = _Runs(root, study, overrides, output.with_suffix(""), built)
    baseline = runs.outcomes(runs.baseline)
    moved: set[str] = set()

    def judged(parameters: robustness.ParameterSet) -> dict[str, bool]:
        outcomes = runs.outcomes(runs.complete_table(parameters))
        moved.update(name for name, each in outcomes.items() if each.values != baseline[name].values)
        return {name: each.reproduced for name, each in outcomes.items()}

    trajectories = runs.design.screening()
    figures = {each.name: _figures(runs.table(each, runs.screened())) for sets in trajectories for each in sets}
    models_of = {(cell.drive, cell.name): str(runs.design.drives[cell.drive]["model"]) for cell in runs.varied}
    effects = robustness.screening_effects(trajectories, figures, models_of)
    sets: list[robustness.ParameterSet] = []
    outcomes: list[dict[str, bool]] = []
    for number in range(robustness.most_batches(len(runs.varied))):
        batch = runs.design.batch(number)
        sets += batch
        outcomes += [judged(each) for each in batch]
        say(f"{study}: {len(sets)} parameter sets")
        if robustness.are_shares_known(outcomes):
            break
    result = robustness.RobustnessResult(
        {name: each.reproduced for name, each in baseline.items()},
        sets,
        outcomes,
        frozenset(moved),
        effects,
        {name: frozenset(models_of[place] for place in used if place in models_of) for name, used in runs.used.items()},
    )
    files.write_text(output, json.dumps(result.record(runs.inputs)))


def _figures(table: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Return one figure of each cell: the duration of a replay, or the rate of fio."""
    figures = table["iops"].astype("float64")
    if "duration_s" in table:
        figures = table["duration_s"].astype("float64").fillna(figures)
    places = zip(table["drive"], table["cell"], strict=True)
    return {place: float(figure) for place, figure in zip(places, figures.fillna(0.0), strict=True)}
