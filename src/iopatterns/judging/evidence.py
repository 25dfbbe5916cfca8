"""The class of each claim and published value: fitted, built into the model, or independent of the model.

The class follows from the files of the models, which list the published values that a model was fitted to and the
published statements that its parameters were chosen for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from iopatterns.analysis import published, quantities
from iopatterns.base import yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.yaml_schema import did_you_mean
from iopatterns.configuration import kinds
from iopatterns.judging.check_statistics import CachedExecutions
from iopatterns.judging.claims import ClaimChecks

FITTED, BUILT_INTO_MODEL, INDEPENDENT = "fitted", "built into the model", "independent"
# The best evidence first
EVIDENCE_CLASSES = (INDEPENDENT, BUILT_INTO_MODEL, FITTED)
# The first column of the executions that is a result
_FIRST_RESULT = "bandwidth_bytes_per_s"
# The columns that follow from each other within one cell, and the name that stands for all of them. A cell fixes the
# size of its requests, their share of reads and the queue depth. So each rate follows from any other rate, and by
# Little's law from a mean latency.
_RATE = "rate"
_RATE_COLUMNS = {quantity.column for quantity in quantities.QUANTITIES.values()} | {_FIRST_RESULT}

# A measured number: drive, cell, and the column, or `_RATE` for all columns that follow from each other
Measurand = tuple[str, str, str]
# The groups of measurands that one part of a check compares
ComparedGroups = frozenset[frozenset[Measurand]]


class EvidenceError(IoPatternsError):
    """A model file names a statement that no source makes."""

    exit_status = 2


@dataclass(frozen=True)
class EvidenceClass:
    """The class of a claim or value, and the reason in a sentence. Both are empty if no twin measured it."""

    name: str = ""
    because: str = ""


@dataclass(frozen=True)
class FitProvenance:
    """The published statements of one study that the models of twins (simulated drives) were made from.

    Attributes:
        fitted: The ids of the values that a model was fitted to.
        chosen: By model and parameter, the patterns of the ids that the parameter was chosen for.
    """

    fitted: frozenset[str] = frozenset()
    chosen: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path | str, study: str) -> "FitProvenance":
        """Return what the model files in ``folder`` state about a study. Files that are not models are ignored."""
        fitted: set[str] = set()
        chosen: dict[str, dict[str, tuple[str, ...]]] = {}
        for path in sorted(Path(folder).glob("*.yaml")):
            content = _content(path)
            fit = content.get("fit", {})
            if Path(fit.get("points", "")).parent.name == study:
                fitted |= set(fit.get("fitted", ()))
            for parameter, patterns in _chosen_for(content):
                own = tuple(name for where, _, name in (each.partition("/") for each in patterns) if where == study)
                if own:
                    chosen.setdefault(path.stem, {})[parameter] = own
        return cls(frozenset(fitted), chosen)

    def parameters(self, model: str, statement: str) -> list[str]:
        """Return the parameters of a model that were chosen for a statement of the study, such as ``ftl.gc_low``."""
        chosen = self.chosen.get(model, {})
        return [name for name, ids in chosen.items() if any(fnmatchcase(statement, each) for each in ids)]


def check_chosen_for(folder: Path, sources: Path, study: str) -> None:
    """Raise EvidenceError if a model names a statement that a study does not make, or misspells a study.

    A model may name a study that the project does not have: models outlive the studies for which they were made.

    Args:
        folder: The folder of models.
        sources: The folder of published data, ``data/published``.
        study: The study whose statements are checked.
    """
    known: set[str] = set()
    named = [
        (path, parameter, pattern)
        for path in sorted(folder.glob("*.yaml"))
        for parameter, patterns in _chosen_for(_content(path))
        for pattern in patterns
    ]
    for path, parameter, pattern in named:
        where = f"{folder.name}/{path.name}: {parameter}: chosen_for: '{pattern}'"
        its_study, _, name = pattern.partition("/")
        if not (sources / its_study).is_dir():
            studies = sorted(each.name for each in sources.iterdir() if each.is_dir())
            if near := did_you_mean(its_study, studies):
                raise EvidenceError(f"{where}: there is no study '{its_study}' in data/published.{near}")
        elif its_study == study:
            known = known or _statements(sources / study)
            if not any(fnmatchcase(each, name) for each in known):
                raise EvidenceError(
                    f"{where}: no claim or value of data/published/{study} has the id '{name}'."
                    f"{did_you_mean(name, known)} Give an id of the study, or delete this entry."
                )


def _statements(folder: Path) -> set[str]:
    """Return the ids of all values and claims of a study."""
    content = yaml_schema.read_yaml(folder, "claims.yaml") if (folder / "claims.yaml").exists() else {}
    return {*published.load_values(folder)["id"], *(claim["id"] for claim in content.get("claims", ()))}


def _content(path: Path) -> Mapping[str, Any]:
    """Return the content of a model file; nothing if the file is not YAML, which is reported where the model is run."""
    try:
        content = yaml_schema.read_yaml(path.parent, path.name)
    except yaml_schema.ConfigError:
        return {}
    return content if isinstance(content, dict) else {}


def _chosen_for(content: Mapping[str, Any]) -> Iterable[tuple[str, Sequence[str]]]:
    """Yield each parameter that was chosen for published statements, with the statements as ``study/id``."""
    groups = {**content.get("parameters", {}), "mode_page": content.get("mode_page", {})}
    for group, entries in groups.items():
        for name, entry in entries.items():
            if isinstance(entry, dict) and "chosen_for" in entry:
                yield f"{group}.{name}", entry["chosen_for"]


def add_evidence_classes(values: pd.DataFrame, twins: Path | str, study: str, executions: pd.DataFrame) -> pd.DataFrame:
    """Return published values with the column ``use``: the class of each value that a twin measured.

    The column is empty if no experiment measures the value, or if the drive was no twin (simulated drive).

    Args:
        values: The published values, as `published.load_values` returns them.
        twins: The folder of models.
        study: The name of the study.
        executions: One row per repetition, as `quantities.read_executions` returns it.
    """
    classifier = Classifier(FitProvenance.load(twins, study), CachedExecutions(executions), values)
    classes = [classifier.class_of_value(name).name for name in values["id"]]
    return values.assign(use=pd.Series(classes, index=values.index, dtype="object"))


def measured_rows(executions: CachedExecutions, row: Mapping[Any, Any]) -> pd.DataFrame | None:
    """Return the repetitions that a published value is compared with; None if no experiment measures the value."""
    if not row["experiment"]:
        return None
    workload = {key: row[key] for key in ("rw", "bs") if row[key]}
    levels = {"drive": row["drive_key"], **workload, **published.parse_conditions(row["conditions"])}
    return executions.of_experiment(row["experiment"]).select(levels)


def _measurands_of(executions: CachedExecutions, row: Mapping[Any, Any]) -> frozenset[Measurand]:
    """Return the measurands that a published value is compared with; none if nothing was measured."""
    rows = measured_rows(executions, row)
    if rows is None:
        return frozenset()
    family = _family(quantities.get_quantity(row["quantity"]).column)
    return frozenset((drive, cell, family) for drive, cell in zip(rows["drive"], rows["cell"], strict=True))


def _family(column: str) -> str:
    """Return the column, or `_RATE` if the column follows from a rate."""
    return _RATE if column in _RATE_COLUMNS or column.endswith("_mean_ms") else column


class Classifier:
    """The classes of one study's claims and values."""

    def __init__(
        self,
        provenance: FitProvenance,
        executions: CachedExecutions,
        values: pd.DataFrame,
        checks: Mapping[str, ClaimChecks] = MappingProxyType({}),
        flips: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        """Derive what each claim and value is computed from.

        Args:
            provenance: The statements that the models were made from.
            executions: The repetitions of all experiments.
            values: The published values, as `published.load_values` returns them.
            checks: The checks of each claim, by the id of the claim.
            flips: By the id of a claim, the mechanisms of models that reverse its outcome when switched off alone.
        """
        self._provenance, self._checks, self._flips = provenance, checks, flips
        # one row per cell suffices: a measurand does not depend on the repetition
        cells = executions.table.groupby(["drive", "cell"], sort=False, as_index=False).first()
        simulated = cells[cells["drive_kind"].isin(kinds.SIMULATED_KINDS)]
        self._models = dict(zip(simulated["drive"], simulated["drive_model"], strict=True))
        marked, self._names = _marked(cells)
        self._marked = CachedExecutions(marked)
        self._drive_and_cell = list(zip(cells["drive"], cells["cell"], strict=True))
        self._rows = {row["id"]: row for row in values.to_dict("records")}
        self._of_values = {name: _measurands_of(executions, row) for name, row in self._rows.items()}
        self._compared = {name: self._of_check(check) for name, check in checks.items()}
        self._fitted = {measurand for name in provenance.fitted for measurand in self.measurands_of_value(name)}
        # what parameters were chosen for: the compared groups of claims, and the measurands of values
        self._chosen: dict[ComparedGroups, tuple[str, list[str]]] = {}
        self._made = set(self._fitted)
        for name in (*checks, *self._rows):
            comparisons = self._comparisons(name)
            if parameters := self._chosen_parameters(name, _drives(comparisons) | self._named_drives(name)):
                self._chosen |= dict.fromkeys(comparisons, (name, parameters))
                self._made |= self.measurands_of_value(name)

    def measurands_of_value(self, name: str) -> frozenset[Measurand]:
        """Return the measurands that a published value is compared with, by its id; none if nothing was measured."""
        return self._of_values.get(name, frozenset())

    def measurands_of_claim(self, name: str) -> frozenset[Measurand]:
        """Return all measurands that a claim is computed from, by its id."""
        return _measurands(self._comparisons(name))

    def class_of_claim(self, name: str, *, reproduced: bool, drive: str | None = None) -> EvidenceClass:
        """Return the class of a measured claim.

        Args:
            name: The id of the claim.
            reproduced: Whether the claim is reproduced.
            drive: The user's drive that the claim was applied to; None for the drives of the source.
        """
        check = self._checks[name] if drive is None else self._checks[name].on(drive)
        comparisons = self._compared[name] if drive is None else self._of_check(check) if check else []
        drives = _drives(comparisons) | (self._named_drives(name) if drive is None else {drive})
        if not drives & self._models.keys():
            return EvidenceClass()
        bounds = check.published_ids if check else []
        if bound := next((each for each in bounds if each in self._provenance.fitted), None):
            return EvidenceClass(FITTED, f"A model was fitted to {bound}, with which the claim is compared.")
        if comparisons and _measurands(comparisons) <= self._fitted:
            return EvidenceClass(FITTED, "A model was fitted to every number that the claim compares.")
        if parameters := self._chosen_parameters(name, drives):
            return EvidenceClass(BUILT_INTO_MODEL, _reason(parameters, "for this claim"))
        for bound in bounds:
            if parameters := self._chosen_parameters(bound, drives):
                return EvidenceClass(
                    BUILT_INTO_MODEL, _reason(parameters, f"for {bound}, with which the claim is compared")
                )
        if comparisons and all(self._is_made(each) for each in comparisons):
            chosen = [self._chosen[each] for each in comparisons if each in self._chosen]
            if not chosen:
                return EvidenceClass(
                    BUILT_INTO_MODEL,
                    "The claim compares only numbers that models were fitted to, or parameters chosen for.",
                )
            others = dict.fromkeys(other for other, _ in chosen)
            parameters = list(dict.fromkeys(parameter for _, each in chosen for parameter in each))
            return EvidenceClass(
                BUILT_INTO_MODEL, _reason(parameters, f"for {', '.join(others)}, which compares the same numbers")
            )
        flips = self._flips.get(name, ()) if reproduced and drive is None else ()
        if flips:
            return EvidenceClass(
                BUILT_INTO_MODEL, f"Without {', or without '.join(flips)}, the claim is not reproduced."
            )
        fitted = sum(_measurands([each]) <= self._fitted for each in comparisons)
        rest = f" {fitted} of its {len(comparisons)} comparisons are of fitted numbers only." if fitted else ""
        return EvidenceClass(
            INDEPENDENT,
            f"No parameter was chosen for this claim, and not all numbers that it compares were fitted.{rest}",
        )

    def class_of_value(self, name: str) -> EvidenceClass:
        """Return the class of a published value that is compared with a measured mean, by its id."""
        row, measured = self._rows[name], self.measurands_of_value(name)
        drive = row["drive_key"]
        if not row["experiment"] or drive not in self._models:
            return EvidenceClass()
        if name in self._provenance.fitted:
            return EvidenceClass(FITTED, "A model was fitted to this value.")
        if measured and measured <= self._fitted:
            return EvidenceClass(FITTED, "It follows from a fitted value.")
        if parameters := self._chosen_parameters(name, {drive}):
            return EvidenceClass(BUILT_INTO_MODEL, _reason(parameters, "for this value"))
        if measured and measured <= self._made:
            for other in self._rows:
                parameters = self._chosen_parameters(other, {drive})
                if parameters and self.measurands_of_value(other) & measured:
                    return EvidenceClass(BUILT_INTO_MODEL, _reason(parameters, f"for {other}, from which it follows"))
        if not row["value"]:
            return EvidenceClass(BUILT_INTO_MODEL, "No request of this kind was made.")
        return EvidenceClass(INDEPENDENT, "No model was fitted to this value, and no parameter chosen for it.")

    def _is_made(self, comparison: ComparedGroups) -> bool:
        """Return whether a comparison is of numbers that models were fitted to or parameters chosen for."""
        return comparison in self._chosen or _measurands([comparison]) <= self._made

    def _comparisons(self, name: str) -> list[ComparedGroups]:
        """Return the groups that a claim or value compares, by its id."""
        if name in self._compared:
            return self._compared[name]
        measured = self.measurands_of_value(name)
        return [frozenset([measured])] if measured else []

    def _of_check(self, check: ClaimChecks) -> list[ComparedGroups]:
        """Return the groups that each part of a check compares."""
        return [
            frozenset(frozenset(map(self._measurand, map(int, group))) for group in estimate.groups)
            for estimate in check.estimates(self._marked)
        ]

    def _measurand(self, mark: int) -> Measurand:
        """Return the measurand that a number of `_marked` stands for."""
        row, column = divmod(mark, len(self._names))
        return (*self._drive_and_cell[row], _family(self._names[column]))

    def _named_drives(self, name: str) -> set[str]:
        """Return the drives that a claim names. A claim about the outcome of a setting has no measurands."""
        return self._checks[name].drives if name in self._checks else set()

    def _chosen_parameters(self, name: str, drives: Iterable[str]) -> list[str]:
        """Return the parameters chosen for a statement in the models of some drives, as ``a.b of model``."""
        models = dict.fromkeys(self._models[drive] for drive in sorted(drives) if drive in self._models)
        return [f"{each} of {model}" for model in models for each in self._provenance.parameters(model, name)]


def _marked(executions: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the executions with each result replaced by a number for its row and column; and the result columns.

    The groups of a statistic computed from this table contain the numbers of the results it is computed from.
    """
    results = executions.columns[executions.columns.get_loc(_FIRST_RESULT) :]
    names = [name for name in results if pd.api.types.is_numeric_dtype(executions[name])]
    rows = pd.Series(range(len(executions)), index=executions.index, dtype="float64") * len(names)
    marks = {name: (rows + number).where(executions[name].notna()) for number, name in enumerate(names)}
    return executions.assign(**marks), names


def _measurands(comparisons: Iterable[ComparedGroups]) -> frozenset[Measurand]:
    return frozenset(measurand for each in comparisons for group in each for measurand in group)


def _drives(comparisons: Iterable[ComparedGroups]) -> set[str]:
    return {drive for drive, _, _ in _measurands(comparisons)}


def _reason(parameters: Sequence[str], purpose: str) -> str:
    """Return a sentence that states which parameters were chosen, and for what."""
    if len(parameters) == 1:
        return f"The parameter {parameters[0]} was chosen {purpose}."
    return f"The parameters {', '.join(parameters[:-1])} and {parameters[-1]} were chosen {purpose}."
