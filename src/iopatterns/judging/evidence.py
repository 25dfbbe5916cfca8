"""Classify claims and published values: fitted, built into models, independent.

A claim is a published statement, and a published value is a number in a paper or data sheet. A claim that is reproduced
on a simulated drive confirms the model of the drive only if the model was not made to reproduce the claim. The model
files in data/twins state what the models were made from: the published values that a model was fitted to, and the
claims and values that its parameters were chosen for.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from iopatterns.analysis import published, quantities
from iopatterns.base import yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.yaml_schema import did_you_mean
from iopatterns.configuration import kinds, study_files
from iopatterns.judging.check_statistics import CachedExecutions
from iopatterns.judging.claims import ClaimChecks
from iopatterns.judging.figures import (
    FIRST_RESULT,
    Figure,
    WorkloadLevels,
    figures_of_rows,
    published_figures,
    quantity_family,
)

FITTED, BUILT_INTO_MODEL, INDEPENDENT = "fitted", "built into the model", "independent"
# The best evidence first
EVIDENCE_CLASSES = (INDEPENDENT, BUILT_INTO_MODEL, FITTED)

# A measured number: drive, workload, and the family of its quantity, see `figures.quantity_family`. Of several
# simulated drives with the same parameters, the first stands for all of them.
Measurand = tuple[str, WorkloadLevels, str]
# The groups of measurands that one part of a check compares
ComparedGroups = frozenset[frozenset[Measurand]]


class EvidenceError(IoPatternsError):
    """The error raised if a model file names a nonexistent claim, value or study.

    A model file in data/twins describes a simulated drive. The key ``chosen_for`` of a parameter in this file names the
    published claims and values that the parameter was chosen for. The message names the file, the parameter and the id.
    """

    exit_status = 2


@dataclass(frozen=True)
class EvidenceClass:
    """Whether a claim or published value is independent evidence for a model.

    The model is that of a simulated drive. A claim (published statement) or value that the model was made to reproduce
    cannot confirm the model.

    Attributes:
        name: ``fitted`` if a model was fitted to the numbers that are compared. ``built into the model`` if a parameter
            was chosen for the claim or value, or if the outcome follows from how the model was made. ``independent``
            otherwise. Empty if the claim or value is not about a simulated drive, or if no experiment measures the
            value.
        because: Why the claim or value is in this class, as a sentence. Empty if ``name`` is empty.
    """

    name: str = ""
    because: str = ""


@dataclass(frozen=True)
class FitProvenance:
    """The claims and published values of one study that models were made to reproduce.

    A model describes a simulated drive. Claims and values have ids, in claims.yaml and values.csv of the study.

    Attributes:
        fitted: The ids of the published values that a model was fitted to.
        chosen: By model, such as ``c400``, and by parameter, such as ``ftl.gc_low``: the ids of the claims and values
            that the parameter was chosen for. An id may be a shell pattern, such as ``table2-px02ssf020-*``.
        fitted_elsewhere: The figures of other studies that a model was fitted to, each with ``study/id`` of the
            published value.
        chosen_elsewhere: The figures of other studies that parameters were chosen for, each with ``study/id`` of the
            published value and the parameters, such as ``ftl.gc_low of c400``.
        assumed: By assumption of a recording, such as ``a full file system``: the ids of the claims and values of the
            study that the assumption was chosen for, or inferred from.
    """

    fitted: frozenset[str] = frozenset()
    chosen: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    fitted_elsewhere: Mapping[Figure, str] = field(default_factory=dict)
    chosen_elsewhere: Mapping[Figure, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    assumed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path | str, study: str) -> "FitProvenance":
        """Return the claims and values of a study that models were made to reproduce.

        The model files name them under ``fit`` and ``chosen_for``. Invalid YAML files, and YAML files that are not
        models, are ignored.

        Args:
            folder: The folder of the model files, ``data/twins``.
            study: The name of the study.
        """
        root = Path(folder).parent.parent
        fitted: set[str] = set()
        chosen: dict[str, dict[str, tuple[str, ...]]] = {}
        fitted_elsewhere: dict[Figure, str] = {}
        chosen_elsewhere: dict[Figure, tuple[str, tuple[str, ...]]] = {}
        figures_of = functools.cache(lambda name: _published_figures(root, name))
        for path in sorted(Path(folder).glob("*.yaml")):
            content = _content(path)
            fit = content.get("fit", {})
            source = Path(fit.get("points", "")).parent.name
            if source == study:
                fitted |= set(fit.get("fitted", ()))
            elif source:
                of_source = figures_of(source)
                fitted_elsewhere |= {
                    of_source[name]: f"{source}/{name}" for name in fit.get("fitted", ()) if name in of_source
                }
            for parameter, patterns in _chosen_for(content):
                split = [(where, name) for where, _, name in (each.partition("/") for each in patterns)]
                if own := tuple(name for where, name in split if where == study):
                    chosen.setdefault(path.stem, {})[parameter] = own
                for where, pattern in split:
                    others = figures_of(where).items() if where != study else ()
                    for name, figure in others:
                        if figure.model == path.stem and fnmatchcase(name, pattern):
                            _, before = chosen_elsewhere.get(figure, ("", ()))
                            parameters = (*before, f"{parameter} of {path.stem}")
                            chosen_elsewhere[figure] = (f"{where}/{name}", tuple(dict.fromkeys(parameters)))
        return cls(frozenset(fitted), chosen, fitted_elsewhere, chosen_elsewhere, _assumptions(root, study))

    def parameters(self, model: str, statement: str) -> list[str]:
        """Return the parameters of a model that were chosen for one claim or value.

        Args:
            model: The name of the model, such as ``c400``.
            statement: The id of the claim or published value.

        Returns:
            The names of the parameters, such as ``ftl.gc_low``. Empty if there are none.
        """
        chosen = self.chosen.get(model, {})
        return [name for name, ids in chosen.items() if any(fnmatchcase(statement, each) for each in ids)]


def check_chosen_for(folder: Path, sources: Path, study: str) -> None:
    """Check that the claims and values that models and assumptions name for a study exist.

    A model file describes a simulated drive. Under ``chosen_for``, it names the claims and published values that a
    parameter was chosen for, as ``study/id``. A model file may name a study that is not, or no longer, part of the
    project. Such a name is an error only if it is similar to the name of an existing study, because it is then probably
    misspelt. The file of the study names, also under ``chosen_for``, what assumptions of its recordings were inferred
    from.

    Args:
        folder: The folder of the model files, ``data/twins``.
        sources: The folder of published data, ``data/published``.
        study: The name of the study whose ids are checked.

    Raises:
        EvidenceError: A file names an id that is no claim or value of the study, or a model file misspells a study.
    """
    known: set[str] = set()
    named = [
        (f"{folder.name}/{path.name}: {parameter}", pattern)
        for path in sorted(folder.glob("*.yaml"))
        for parameter, patterns in _chosen_for(_content(path))
        for pattern in patterns
    ]
    grid = study_files.GRID.format(study=study)
    named += [
        (f"{grid}: mechanisms.{mechanism}", f"{study}/{pattern}")
        for mechanism, patterns in _assumptions(folder.parent.parent, study).items()
        for pattern in patterns
    ]
    for place, pattern in named:
        where = f"{place}: chosen_for: '{pattern}'"
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


def _published_figures(root: Path, study: str) -> dict[str, Figure]:
    """Return the figures of a study's published values by id; none if the study does not exist or is invalid.

    Judging that study reports invalid files.
    """
    if not study_files.is_study_name(study):
        return {}
    try:
        return dict(published_figures(root, study))
    except IoPatternsError:
        return {}


def _assumptions(root: Path, study: str) -> dict[str, tuple[str, ...]]:
    """Return what the assumptions of a study's recordings were chosen for, by the name of the mechanism."""
    file = study_files.GRID.format(study=study)
    declared = yaml_schema.read_yaml(root, file).get("mechanisms", {}) if (root / file).exists() else {}
    return {name: tuple(body["chosen_for"]) for name, body in declared.items() if "chosen_for" in body}


def _statements(folder: Path) -> set[str]:
    """Return the ids of all published values and claims of a study.

    Args:
        folder: The study's folder of published data, with values.csv and claims.yaml.
    """
    content = yaml_schema.read_yaml(folder, "claims.yaml") if (folder / "claims.yaml").exists() else {}
    return {*published.load_values(folder)["id"], *(claim["id"] for claim in content.get("claims", ()))}


def _content(path: Path) -> Mapping[str, Any]:
    """Return the content of a model file, or an empty mapping if it is not valid YAML.

    Running the model reports an invalid file.
    """
    try:
        content = yaml_schema.read_yaml(path.parent, path.name)
    except yaml_schema.ConfigError:
        return {}
    return content if isinstance(content, dict) else {}


def _chosen_for(content: Mapping[str, Any]) -> Iterable[tuple[str, Sequence[str]]]:
    """Yield each parameter of a model that has the key ``chosen_for``.

    Args:
        content: The content of the model file.

    Yields:
        The name of the parameter, such as ``ftl.gc_low``, and the ids of the claims and values that it was chosen for,
        as ``study/id``.
    """
    groups = {**content.get("parameters", {}), "mode_page": content.get("mode_page", {})}
    for group, entries in groups.items():
        for name, entry in entries.items():
            if isinstance(entry, dict) and "chosen_for" in entry:
                yield f"{group}.{name}", entry["chosen_for"]


def add_evidence_classes(values: pd.DataFrame, twins: Path | str, study: str, executions: pd.DataFrame) -> pd.DataFrame:
    """Return published values with one more column, ``use``: their evidence class.

    The class says whether a value is independent evidence for the model of a simulated drive. It is ``independent``,
    ``built into the model`` or ``fitted``. It is empty for a value that no experiment measures, and for a value of a
    drive that is not simulated.

    Args:
        values: The published values, as `published.load_values` returns them.
        twins: The folder of the model files of simulated drives, ``data/twins``.
        study: The name of the study.
        executions: One row per repetition, as `quantities.read_executions` returns it.

    Returns:
        A copy of ``values`` with the added column.
    """
    classifier = Classifier(FitProvenance.load(twins, study), CachedExecutions(executions), values)
    classes = [classifier.class_of_value(name).name for name in values["id"]]
    return values.assign(use=pd.Series(classes, index=values.index, dtype="object"))


def measured_rows(executions: CachedExecutions, row: Mapping[Any, Any]) -> pd.DataFrame | None:
    """Return the repetitions that a published value is compared with.

    A repetition is one run of fio.

    Args:
        executions: The repetitions of all experiments.
        row: The published value: a row of the table that `published.load_values` returns, as a mapping.

    Returns:
        The repetitions with the experiment, drive, workload, block size and conditions of the value; empty if they were
        not measured. None if the value names no experiment.
    """
    if not row["experiment"]:
        return None
    workload = {key: row[key] for key in ("rw", "bs") if row[key]}
    levels = {"drive": row["drive_key"], **workload, **published.parse_conditions(row["conditions"])}
    return executions.of_experiment(row["experiment"]).select(levels)


class Classifier:
    """A classifier of one study's claims and published values.

    The class of a claim or value shows whether the claim or value is independent of the models of simulated drives, see
    `EvidenceClass`.

    A claim is computed from measured numbers, and a value is compared with measured numbers. Such a number is called a
    measurand. It is identified by its drive, its workload and its quantity, whichever cells of whichever study measure
    it. The class depends mainly on whether models were made to reproduce the claim, the value or its measurands.
    """

    def __init__(
        self,
        provenance: FitProvenance,
        executions: CachedExecutions,
        values: pd.DataFrame,
        checks: Mapping[str, ClaimChecks] = MappingProxyType({}),
        flips: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        """Determine the measurands (measured numbers) of each claim and value.

        Args:
            provenance: The claims and values that the models were made from.
            executions: The repetitions (runs of fio) of all experiments.
            values: The published values, as `published.load_values` returns them.
            checks: The checks of each claim, by the id of the claim.
            flips: The names of mechanisms of models, such as read-ahead, by the id of a claim. Switching off one of
                these mechanisms reverses the outcome of the claim.
        """
        self._provenance, self._checks, self._flips = provenance, checks, flips
        # one row per cell suffices: a measurand does not depend on the repetition
        cells = executions.table.groupby(["drive", "cell"], sort=False, as_index=False).first()
        simulated = cells[cells["drive_kind"].isin(kinds.SIMULATED_KINDS)]
        self._models = dict(zip(simulated["drive"], simulated["drive_model"], strict=True))
        self._figures = figures_of_rows(cells)
        self._drives = self._distinct_drives(cells["drive"])
        marked, self._names = marked_results(cells)
        self._marked = CachedExecutions(marked)
        self._rows = {row["id"]: row for row in values.to_dict("records")}
        places = {place: number for number, place in enumerate(zip(cells["drive"], cells["cell"], strict=True))}
        self._of_values = {name: self._of_value(executions, row, places) for name, row in self._rows.items()}
        self._compared = {name: self._of_check(check) for name, check in checks.items()}
        self._fitted = {measurand for name in provenance.fitted for measurand in self.measurands_of_value(name)}
        elsewhere = dict(self._elsewhere())
        self._fitted |= {each for each, figure in elsewhere.items() if figure in provenance.fitted_elsewhere}
        # what parameters were chosen for: the compared groups of claims, and the measurands of values
        self._chosen: dict[ComparedGroups, tuple[str, list[str]]] = {}
        self._made = set(self._fitted)
        self._chosen_elsewhere = {
            each: provenance.chosen_elsewhere[figure]
            for each, figure in elsewhere.items()
            if figure in provenance.chosen_elsewhere
        }
        for each, (name, elsewhere_parameters) in self._chosen_elsewhere.items():
            self._chosen[frozenset([frozenset([each])])] = (name, [f"parameter {one}" for one in elsewhere_parameters])
            self._made.add(each)
        for name in (*checks, *self._rows):
            comparisons = self._comparisons(name)
            if parameters := self._chosen_parameters(name, _drives(comparisons) | self._named_drives(name)):
                self._chosen |= dict.fromkeys(comparisons, (name, parameters))
                self._made |= self.measurands_of_value(name)

    def measurands_of_value(self, name: str) -> frozenset[Measurand]:
        """Return the measurands (measured numbers) to compare with a published value.

        Args:
            name: The id of the published value.

        Returns:
            Tuples of drive, workload and family of the quantity, such as ``rate``, see `figures.quantity_family`. The
            set is empty if nothing was measured for the value, or if there is no such value.
        """
        return self._of_values.get(name, frozenset())

    def measurands_of_claim(self, name: str) -> frozenset[Measurand]:
        """Return the measurands (measured numbers) that a claim is computed from.

        Args:
            name: The id of the claim.

        Returns:
            Tuples as `measurands_of_value` returns them. The set is empty if nothing was measured for the claim.
        """
        return _measurands(self._comparisons(name))

    def class_of_claim(
        self, name: str, *, reproduced: bool, drive: str | None = None, moved: ClaimChecks | None = None
    ) -> EvidenceClass:
        """Return the evidence class of a measured claim, with a reason.

        The class says whether the claim is independent evidence for the models of simulated drives, see
        `EvidenceClass`.

        Args:
            name: The id of the claim. The claim must have checks.
            reproduced: Whether the claim is reproduced.
            drive: The user's drive that the claim was applied to; None for the drives of the source.
            moved: The checks of the claim, applied to ``drive``.

        Returns:
            The class. It is empty if the claim is not about a simulated drive.
        """
        check = self._checks[name] if drive is None else moved
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
                    "The claim compares only numbers that models were fitted to, or made with in view.",
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
        """Return whether a published value is evidence for the models, with a reason.

        A value to which a model was fitted (class ``fitted``) is no evidence for the model; a value that no model has
        seen (class ``independent``) is. `EvidenceClass` lists all classes.

        Args:
            name: The id of the published value.

        Returns:
            The class. It is empty if no experiment measures the value, or if the drive of the value is not simulated.
        """
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
            for each in measured & self._chosen_elsewhere.keys():
                other, chosen = self._chosen_elsewhere[each]
                parameters = [f"parameter {one}" for one in chosen]
                return EvidenceClass(BUILT_INTO_MODEL, _reason(parameters, f"for {other}, which is the same figure"))
        if not row["value"]:
            return EvidenceClass(BUILT_INTO_MODEL, "No request of this kind was made.")
        return EvidenceClass(INDEPENDENT, "No model was fitted to this value, and no parameter chosen for it.")

    def _is_made(self, comparison: ComparedGroups) -> bool:
        """Return whether the outcome of a comparison was known when models were made.

        This is so if a parameter was chosen for this comparison. It is also so if, for each of its measured numbers, a
        model was fitted to the number or a parameter chosen for it.

        Args:
            comparison: The groups of measurands that a part of a check compares.
        """
        return comparison in self._chosen or _measurands([comparison]) <= self._made

    def _comparisons(self, name: str) -> list[ComparedGroups]:
        """Return what a claim or value compares: one item for each part of its checks.

        An item has the groups of measurands (measured numbers) that are compared with each other.

        Args:
            name: The id of the claim or value.
        """
        if name in self._compared:
            return self._compared[name]
        measured = self.measurands_of_value(name)
        return [frozenset([measured])] if measured else []

    def _of_check(self, check: ClaimChecks) -> list[ComparedGroups]:
        """Return what the checks of a claim compare: one item for each part of the checks.

        An item has the groups of measurands (measured numbers) that are compared with each other.
        """
        return [
            frozenset(frozenset(map(self._measurand, map(int, group))) for group in estimate.groups)
            for estimate in check.estimates(self._marked)
        ]

    def _measurand(self, mark: int) -> Measurand:
        """Return the measurand that the function `marked_results` replaced by a number.

        Args:
            mark: The number.
        """
        row, column = divmod(mark, len(self._names))
        return (self._drives[row], self._figures[row].workload, quantity_family(self._names[column]))

    def _distinct_drives(self, names: Iterable[str]) -> list[str]:
        """Return the drive of each cell: of simulated drives with the same parameters, always the first.

        Args:
            names: The name of the drive of each cell.
        """
        first: dict[Any, str] = {}
        return [
            first.setdefault((figure.model, figure.parameters) if name in self._models else name, name)
            for name, figure in zip(names, self._figures, strict=True)
        ]

    def _of_value(
        self, executions: CachedExecutions, row: Mapping[Any, Any], places: Mapping[tuple[str, str], int]
    ) -> frozenset[Measurand]:
        """Return the measurands that a published value is compared with; none if nothing was measured for it.

        Args:
            executions: The repetitions of all experiments.
            row: The published value.
            places: The position of each cell, by drive and name of the cell.
        """
        rows = measured_rows(executions, row)
        if rows is None:
            return frozenset()
        family = quantity_family(quantities.get_quantity(row["quantity"]).column)
        numbers = {places[place] for place in zip(rows["drive"], rows["cell"], strict=True)}
        return frozenset((self._drives[number], self._figures[number].workload, family) for number in numbers)

    def _elsewhere(self) -> Iterator[tuple[Measurand, Figure]]:
        """Yield the measurands of simulated drives whose quantities models are fitted to, with their figures."""
        families = {
            figure.family for figure in (*self._provenance.fitted_elsewhere, *self._provenance.chosen_elsewhere)
        }
        for drive, figure in zip(self._drives, self._figures, strict=True):
            if drive in self._models:
                for family in families:
                    yield (drive, figure.workload, family), replace(figure, family=family)

    def _named_drives(self, name: str) -> set[str]:
        """Return the drives that a claim names; an empty set for a published value.

        They are needed in addition to measurands, because a claim about the outcome of a drive setting has no
        measurands.
        """
        return self._checks[name].drives if name in self._checks else set()

    def _chosen_parameters(self, name: str, drives: Iterable[str]) -> list[str]:
        """Return the parameters that were chosen for a claim or value.

        Args:
            name: The id of the claim or value.
            drives: The drives whose models are searched.

        Returns:
            Texts such as ``parameter ftl.gc_low of c400``, and for an assumption of the recording, on which the claim
            or value depends on any drive, ``assumption "a full file system"``.
        """
        models = dict.fromkeys(self._models[drive] for drive in sorted(drives) if drive in self._models)
        found = [
            f"parameter {each} of {model}" for model in models for each in self._provenance.parameters(model, name)
        ]
        assumed = self._provenance.assumed.items() if models else ()
        return found + [
            f'assumption "{mechanism}"' for mechanism, ids in assumed if any(fnmatchcase(name, each) for each in ids)
        ]


def marked_results(executions: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return repetitions with unique numbers as results, and the result columns.

    A statistic selects numbers from the returned table as it selects results from the original table. Each selected
    number identifies row and column of a result: it is the position of the row, times the number of result columns,
    plus the position of the column.
    """
    results = executions.columns[executions.columns.get_loc(FIRST_RESULT) :]
    names = [name for name in results if pd.api.types.is_numeric_dtype(executions[name])]
    rows = pd.Series(range(len(executions)), index=executions.index, dtype="float64") * len(names)
    marks = {name: (rows + number).where(executions[name].notna()) for number, name in enumerate(names)}
    return executions.assign(**marks), names


def _measurands(comparisons: Iterable[ComparedGroups]) -> frozenset[Measurand]:
    return frozenset(measurand for each in comparisons for group in each for measurand in group)


def _drives(comparisons: Iterable[ComparedGroups]) -> set[str]:
    return {drive for drive, _, _ in _measurands(comparisons)}


def _reason(parameters: Sequence[str], purpose: str) -> str:
    """Return a sentence that states which parameters and assumptions were chosen for what.

    Args:
        parameters: The parameters and assumptions, as `Classifier._chosen_parameters` returns them.
        purpose: The end of the sentence, such as ``for this claim``.
    """
    first, *others = (f"the {each}" for each in parameters)
    listed = f"{', '.join([first, *others[:-1]])} and {others[-1]}" if others else first
    return f"{listed[0].upper()}{listed[1:]} {'were' if others else 'was'} chosen {purpose}."
