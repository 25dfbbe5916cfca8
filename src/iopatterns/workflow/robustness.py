"""Find how far the claims of a study survive other plausible parameters of the simulated drives.

A claim is a published statement that is checked against measurements. Each parameter of a simulated drive that no data
sheet fixes has a range of plausible values, see `ranges.plausible_range`. Two designs draw parameter sets from these
ranges:

- Morris screening (M. D. Morris, Technometrics 33, 1991) changes one parameter of each model at a time, and ranks the
  parameters of a model by their effect on the figures that claims use.
- Batches of Latin hypercubes sample all parameters at once. The share of sets in which a claim is reproduced is its
  robustness.

The results are the committed robustness records, data/robustness/<study>.yaml.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from iopatterns.configuration import committed_records, config
from iopatterns.twin import models, ranges
from iopatterns.twin.error import TwinError
from iopatterns.workflow import ablation

ROBUSTNESS_FOLDER = "results/robustness"
BASELINE = "baseline"
ROBUST, CONTINGENT, NOT_REPRODUCED = "robust", "contingent", "not reproduced"
ROBUSTNESS_CLASSES = (ROBUST, CONTINGENT, NOT_REPRODUCED)

# The least share of sets in which a robust claim is reproduced
ROBUST_SHARE = 0.95
# Sampling ends when the 95 % interval of each share is within so much of the share, or after the last batch
HALF_WIDTH = 0.05
CONFIDENCE = 0.95
BATCH_SETS = 20
MOST_SETS = 80  # if 73 sets or more all reproduce a claim, the interval begins above 95 %
# Limits that keep all studies within an hour of two cores: the repetitions of all samples of a study, and the cells of
# a drive in each set of the screening
_MOST_REPETITIONS = 16_000
SCREENED_CELLS = 8
_LEVELS = 4  # of the grid of Morris screening, as usual
_RANKED = 10  # parameters of each model that screening ranks highest: candidates for the parameter that decides
_HEAD = """\
# How far the claims of the study survive other plausible parameters of the simulated drives. `share` is the share of
# parameter sets in which a claim is reproduced, with its 95 % interval from `low` to `high`. `decides` is the parameter
# whose lower and upper half of values differ most in this share. `moved: false` means that no set changes any value of
# the claim. `screening` has the mean absolute effect of the parameters with the largest effects (Morris' mu star).
# `snakemake --cores 2 robustness` makes this file. `made_from` has checksums that show whether the file is stale.
"""


# A parameter of a model: the name of the model and the parameter as ``group.name``
ParameterKey = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class ParameterSet:
    """A set of parameter values of the simulated drives of a study.

    Attributes:
        name: The name of the set in file names, such as ``sample-007``.
        shares: The position of each parameter in its range, from 0 to 1.
    """

    name: str
    shares: Mapping[ParameterKey, float]


@dataclasses.dataclass(frozen=True)
class Design:
    """The parameters of a study's simulated drives that may have other values, and the sets to measure.

    Attributes:
        drives: The entries of the drives in the configuration, by name.
        free: The ranges of the parameters that may have other values, by model and parameter. Drives of one model share
            its parameters. A parameter that a study sets for a drive is fixed for this drive.
    """

    drives: Mapping[str, Mapping[str, Any]]
    free: Mapping[ParameterKey, ranges.PlausibleRange]

    @classmethod
    def load(cls, conf: config.Config, drives: Sequence[str]) -> Design:
        """Return the design for some drives of a configuration.

        Args:
            conf: The configuration.
            drives: The names of simulated drives.
        """
        entries: dict[str, Mapping[str, Any]] = {name: conf.drives[name] for name in drives}
        stated: dict[str, set[str]] = {}
        for entry in entries.values():
            own = set(entry.get("set", {}))
            stated[entry["model"]] = stated.get(entry["model"], own) & own
        free = {
            (model, each.name): each
            for model, names in sorted(stated.items())
            for each in ranges.free_parameters(models.load_model(model), frozenset(names))
        }
        return cls(entries, free)

    @functools.cached_property
    def baseline_shares(self) -> dict[ParameterKey, float]:
        """The position of the value of each parameter in its range."""
        return {
            factor: found.share_of(models.load_model(factor[0]).values[factor[1]])
            for factor, found in self.free.items()
        }

    def screening(self) -> list[list[ParameterSet]]:
        """Return the trajectories of Morris screening, one for all models together.

        From each set to the next, one parameter of each model changes. The parameters of a model affect the figures of
        its own drives only, so that models are screened at the same time. A model with fewer parameters than another
        one stays at its last set.
        """
        from SALib.sample import morris

        steps: dict[str, Any] = {}
        for model, names in self._names_by_model.items():
            problem = {"num_vars": len(names), "names": names, "bounds": [[0.0, 1.0]] * len(names)}
            steps[model] = morris.sample(problem, 1, num_levels=_LEVELS, seed=_seed(model, 0))
        length = max((len(each) for each in steps.values()), default=0)
        return [
            [
                ParameterSet(
                    f"screening-{step:03}",
                    {
                        (model, name): float(each[min(step, len(each) - 1)][number])
                        for model, each in steps.items()
                        for number, name in enumerate(self._names_by_model[model])
                    },
                )
                for step in range(length)
            ]
        ]

    def batch(self, number: int) -> list[ParameterSet]:
        """Return a batch of parameter sets: a Latin hypercube for each model.

        Args:
            number: The number of the batch, from 0.
        """
        from SALib.sample import latin

        shares: list[dict[ParameterKey, float]] = [{} for _ in range(BATCH_SETS)]
        for model, names in self._names_by_model.items():
            problem = {"num_vars": len(names), "names": names, "bounds": [[0.0, 1.0]] * len(names)}
            rows = latin.sample(problem, BATCH_SETS, seed=_seed(model, number + 1))
            for each, row in zip(shares, rows, strict=True):
                each |= {(model, name): float(share) for name, share in zip(names, row, strict=True)}
        first = number * BATCH_SETS
        return [ParameterSet(f"sample-{first + index:03}", each) for index, each in enumerate(shares)]

    @functools.cached_property
    def _names_by_model(self) -> dict[str, list[str]]:
        """The names of the parameters in `free`, by model."""
        found: dict[str, list[str]] = {}
        for model, name in self.free:
            found.setdefault(model, []).append(name)
        return found

    def entry(self, drive: str, parameters: ParameterSet) -> Mapping[str, Any]:
        """Return the entry of a drive with the values of a parameter set.

        Some combinations of values contradict each other, such as a prefetch window below its refill. The set is then
        moved towards the values of the model in quarters of the distance, until the drive can be simulated.

        Args:
            drive: The name of the drive.
            parameters: The parameter set.
        """
        entry = self.drives[drive]
        stated = entry.get("set", {})
        model = models.load_model(entry["model"]).overridden(f"{name}={value}" for name, value in stated.items())
        own = {
            factor: share
            for factor, share in parameters.shares.items()
            if factor[0] == entry["model"] and factor[1] not in stated
        }
        usual = self.baseline_shares
        for quarters in (4, 3, 2, 1):
            values = {
                factor[1]: self.free[factor].value_at(usual[factor] + quarters / 4 * (share - usual[factor]))
                for factor, share in own.items()
            }
            changed = {name: value for name, value in values.items() if value != model.values[name]}
            texts = {name: models.format_value(name, value) for name, value in changed.items()}
            try:
                drawn = model.overridden(f"{name}={text}" for name, text in texts.items())
            except TwinError:
                continue
            return {**entry, "set": {**stated, **texts}, "model_digest": drawn.digest}
        return entry


def _seed(model: str, number: int) -> int:
    """Return a seed that follows from the name of a model and a number."""
    return int(committed_records.checksum([model, number])[:7], 16)


def most_batches(cells: int) -> int:
    """Return the largest number of batches of parameter sets for a study.

    Args:
        cells: The number of cells that are measured with each parameter set.
    """
    return max(1, min(MOST_SETS, _MOST_REPETITIONS // max(cells, 1)) // BATCH_SETS)


def share_interval(reproduced: int, sets: int) -> tuple[float, float]:
    """Return the Wilson interval of a share at the level `CONFIDENCE`.

    Args:
        reproduced: The number of sets that reproduce a claim.
        sets: The number of all sets, at least 1.
    """
    from scipy.stats import binomtest

    low, high = binomtest(reproduced, sets).proportion_ci(CONFIDENCE, method="wilson")
    return float(low), float(high)


def are_shares_known(outcomes: Sequence[Mapping[str, bool]]) -> bool:
    """Return whether the interval of each share is within `HALF_WIDTH` of the share.

    Args:
        outcomes: For each set, whether each claim is reproduced.
    """
    sets = len(outcomes)
    for claim in outcomes[0] if outcomes else ():
        reproduced = sum(each.get(claim, False) for each in outcomes)
        low, high = share_interval(reproduced, sets)
        if max(high - reproduced / sets, reproduced / sets - low) > HALF_WIDTH:
            return False
    return sets > 0


def robustness_class(baseline: bool, share: float) -> str:
    """Return the class of a claim: robust, contingent or not reproduced.

    Args:
        baseline: Whether the claim is reproduced with the values of the models.
        share: The share of sets in which the claim is reproduced.
    """
    if share >= ROBUST_SHARE:
        return ROBUST
    return CONTINGENT if baseline or share > 1 - ROBUST_SHARE else NOT_REPRODUCED


def screening_effects(
    trajectories: Sequence[Sequence[ParameterSet]],
    figures: Mapping[str, Mapping[Any, float]],
    models_of: Mapping[Any, str],
) -> dict[ParameterKey, float]:
    """Return the mean absolute elementary effect of each parameter on the logarithms of figures (Morris' μ*).

    An effect of 0.1 means that a step through the complete range would change the figures of the model's drives by a
    tenth on average.

    Args:
        trajectories: The sets of each trajectory.
        figures: For each set by name, the figures above 0 by cell.
        models_of: The model of the drive of each cell.
    """
    effects: dict[ParameterKey, list[float]] = {}
    for sets in trajectories:
        for before, after in itertools.pairwise(sets):
            for factor, share in after.shares.items():
                step = share - before.shares[factor]
                if not step:
                    continue
                old, new = figures[before.name], figures[after.name]
                changes = [
                    abs(math.log(new[cell] / old[cell]))
                    for cell, model in models_of.items()
                    if model == factor[0] and old.get(cell, 0) > 0 and new.get(cell, 0) > 0
                ]
                effects.setdefault(factor, []).append(float(np.mean(changes)) / abs(step) if changes else 0.0)
    return {factor: float(np.mean(each)) for factor, each in effects.items()}


def deciding_factor(
    sets: Sequence[ParameterSet], reproduced: Sequence[bool], candidates: Sequence[ParameterKey]
) -> ParameterKey | None:
    """Return the parameter whose lower and upper half differ most in the share of sets that reproduce a claim.

    Args:
        sets: The sampled parameter sets.
        reproduced: Whether each set reproduces the claim.
        candidates: The parameters to compare, the most influential first.

    Returns:
        The parameter; None if all sets agree, or if there are no candidates.
    """
    if len(set(reproduced)) < 2 or not candidates:
        return None
    holds = np.array(reproduced, dtype=float)

    def difference(factor: ParameterKey) -> float:
        upper = np.array([each.shares[factor] >= 0.5 for each in sets])
        if upper.all() or not upper.any():
            return 0.0
        return abs(float(holds[upper].mean() - holds[~upper].mean()))

    return max(candidates, key=difference)


@dataclasses.dataclass(frozen=True)
class RobustnessResult:
    """What the runs of a study with other parameters found.

    Attributes:
        baseline: Whether each claim is reproduced with the values of the models.
        sets: The sampled parameter sets.
        outcomes: For each sampled set, whether each claim is reproduced.
        moved: The claims of which some set changes a value.
        effects: The effect of each parameter, see `screening_effects`.
        models_of_claims: The models of the drives that each claim is about.
    """

    baseline: Mapping[str, bool]
    sets: Sequence[ParameterSet]
    outcomes: Sequence[Mapping[str, bool]]
    moved: frozenset[str]
    effects: Mapping[ParameterKey, float]
    models_of_claims: Mapping[str, frozenset[str]]

    def ranked(self, model: str) -> list[ParameterKey]:
        """Return the parameters of a model that screening ranks highest, without those that have no effect."""
        own = [factor for factor, effect in self.effects.items() if factor[0] == model and effect > 0]
        return sorted(own, key=lambda factor: (-self.effects[factor], factor))[:_RANKED]

    def record(self, made_from: Mapping[str, str]) -> dict[str, Any]:
        """Return the content of the robustness record.

        Args:
            made_from: Checksums of the inputs, by name.
        """
        claims: dict[str, Any] = {}
        for name, baseline in self.baseline.items():
            holds = [each.get(name, False) for each in self.outcomes]
            share = sum(holds) / len(holds)
            low, high = share_interval(sum(holds), len(holds))
            class_ = robustness_class(baseline, share)
            candidates = [each for model in sorted(self.models_of_claims[name]) for each in self.ranked(model)]
            factor = deciding_factor(self.sets, holds, candidates)
            claims[name] = {
                "share": round(share, 4),
                "low": round(low, 4),
                "high": round(high, 4),
                "class": class_,
                **({"decides": f"{factor[1]} of {factor[0]}"} if factor else {}),
                **({} if name in self.moved else {"moved": False}),
            }
        screened = sorted({factor[0] for factor in self.effects})
        return {
            "sets": len(self.outcomes),
            "made_from": dict(made_from),
            "screening": {
                model: {factor[1]: round(self.effects[factor], 4) for factor in self.ranked(model)}
                for model in screened
            },
            "claims": claims,
        }


def robustness_inputs(conf: config.Config, study: str) -> dict[str, str]:
    """Return checksums of everything that a robustness record depends on, by name.

    Args:
        conf: The configuration.
        study: The name of the study.
    """
    conf = ablation.simulated_drives_only(conf)
    named = sorted({cell.drive for cell in ablation.cells_used_by_claims(conf, study)})
    design = Design.load(conf, named)
    texts = {f"{model}: {name}": [each.text, str(each.values)] for (model, name), each in design.free.items()}
    return {**ablation.input_checksums(conf, study, None), "ranges of parameters": committed_records.checksum(texts)}


def write_records(root: Path, overrides: Mapping[str, Any], measured: Mapping[str, Path]) -> str:
    """Write the robustness records of studies, data/robustness/<study>.yaml.

    Args:
        root: The project's folder.
        overrides: Values that replace top-level keys of config/config.yaml; empty for none.
        measured: By study, the file with the content of the record, which `robustness_runs.measure_robustness` wrote.

    Returns:
        Text for a terminal: a line for each study with the number of claims in each class.
    """
    conf = config.load_config(root, overrides)
    lines = []
    for study, path in measured.items():
        content = json.loads(path.read_text(encoding="utf-8"))
        content["made_from"] = robustness_inputs(conf, study)
        committed_records.ROBUSTNESS_RECORDS.write(root, study, _HEAD, content)
        counts = {
            name: sum(each["class"] == name for each in content["claims"].values()) for name in ROBUSTNESS_CLASSES
        }
        counted = ", ".join(f"{count} {name}" for name, count in counts.items())
        lines.append(
            f"{committed_records.ROBUSTNESS_RECORDS.file(study)}: {counted} in {content['sets']} parameter sets"
        )
    return "\n".join(lines)


def load_records(root: Path, overrides: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """Return the content of the robustness records, by study. Studies without a record are left out.

    Args:
        root: The project's folder.
        overrides: Values that replace top-level keys of config/config.yaml; None for none.

    Returns:
        For each study, a mapping with the keys of the record: ``sets``, ``screening`` and ``claims``. ``stale`` lists
        the inputs that have changed since the record was made.

    Raises:
        RecordError: A record is invalid.
        ConfigError: The configuration is invalid.
    """
    conf = config.load_config(root, overrides)
    found = {}
    for study in ablation.studies_with_claims(conf):
        content = committed_records.ROBUSTNESS_RECORDS.read(root, study)
        if content is None:
            continue
        stale = committed_records.stale_inputs(content, robustness_inputs(conf, study))
        found[study] = {key: content[key] for key in ("sets", "screening", "claims")} | {"stale": stale}
    return found


def record_files(conf: config.Config) -> list[str]:
    """Return the paths of the existing robustness records of the configured studies."""
    named = map(committed_records.ROBUSTNESS_RECORDS.file, ablation.studies_with_claims(conf))
    return [file for file in named if (conf.root / file).exists()]
