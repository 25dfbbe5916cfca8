"""The class of each claim and published value, derived from how twins were made: fitted, built in or independent."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pandas as pd

from iopatterns.analysis import published, quantities
from iopatterns.base import yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import kinds
from iopatterns.judging import checks
from iopatterns.judging.checks.estimates import Estimate
from iopatterns.judging.checks.selections import Executions

FITTED, BUILT_IN, INDEPENDENT = "fitted", "built in", "independent"
# What counts most comes first
CLASSES = (INDEPENDENT, BUILT_IN, FITTED)
# The first of the executions' columns that hold what came out
_FIRST_RESULT = "bandwidth_bytes_per_s"
# The columns that all tell the same of one cell, and the name that stands for any of them. A cell fixes the size of its
# requests, their share of reads and how many are outstanding. So each rate follows from any other, and by Little's law
# from a mean latency.
_RATE = "rate"
_OF_RATE = {measure.column for measure in quantities.QUANTITIES.values()} | {_FIRST_RESULT}

# What was measured once: drive, cell, and the column, or `_RATE` for all that follow from each other
Figure = tuple[str, str, str]
# The groups of figures that a part of a check compares
Comparison = frozenset[frozenset[Figure]]


class ClassesError(IoPatternsError):
    """A model file names a statement that no source makes."""

    exit_status = 2


@dataclass(frozen=True)
class Class:
    """The class of a claim or value, and in a sentence from what it follows; both are empty where no twin made it."""

    name: str = ""
    because: str = ""


@dataclass(frozen=True)
class Making:
    """How the twins of one study were made, as far as its published statements had a part in it.

    ``fitted``: the ids of the values that a model was fitted to. ``chosen``: by model and parameter the patterns of
    the ids of this study's statements that the parameter was chosen for.
    """

    fitted: frozenset[str] = frozenset()
    chosen: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path | str, study: str) -> "Making":
        """Return what the model files in ``folder`` say of a study. Files that are no models are passed over."""
        fitted: set[str] = set()
        chosen = {}
        for path in sorted(Path(folder).glob("*.yaml")):
            content = _content(path)
            fit = content.get("fit", {})
            if Path(fit.get("points", "")).parent.name == study:
                fitted |= set(fit.get("fitted", ()))
            of_model = {}
            for parameter, patterns in _chosen_for(content):
                own = tuple(name for where, _, name in (each.partition("/") for each in patterns) if where == study)
                if own:
                    of_model[parameter] = own
            if of_model:
                chosen[path.stem] = of_model
        return cls(frozenset(fitted), chosen)

    def parameters(self, model: str, statement: str) -> list[str]:
        """Return the parameters of a model that were chosen for a statement of the study."""
        chosen = self.chosen.get(model, {})
        return [name for name, ids in chosen.items() if any(fnmatchcase(statement, each) for each in ids)]


def check_statements(folder: Path, sources: Path, study: str) -> None:
    """Raise ClassesError where a model in ``folder`` was chosen for what ``study`` in ``sources`` does not state.

    So it does for a study that is not in ``sources`` at all.
    """
    known: set[str] = set()
    for path in sorted(folder.glob("*.yaml")):
        for parameter, patterns in _chosen_for(_content(path)):
            for pattern in patterns:
                where = f"{folder.name}/{path.name}: {parameter}: chosen_for: '{pattern}'"
                its_study, _, name = pattern.partition("/")
                if not (sources / its_study).is_dir():
                    there = sorted(each.name for each in sources.iterdir() if each.is_dir())
                    raise ClassesError(
                        f"{where}: there is no study '{its_study}' in data/published.{_near(its_study, there)}"
                    )
                if its_study != study:
                    continue
                known = known or _statements(sources / study)
                if not any(fnmatchcase(each, name) for each in known):
                    raise ClassesError(
                        f"{where}: no claim or value of data/published/{study} has the id '{name}'.{_near(name, known)}"
                        " Name one that it has, or delete this."
                    )


def _near(name: str, known: Iterable[str]) -> str:
    return yaml_schema.nearest(name, known)


def _statements(folder: Path) -> set[str]:
    """Return the ids of all values and claims of a study."""
    content = yaml_schema.read_yaml(folder, "claims.yaml") if (folder / "claims.yaml").exists() else {}
    return {*published.load(folder)["id"], *(claim["id"] for claim in content.get("claims", ()))}


def _content(path: Path) -> Mapping[str, Any]:
    """Return what a model file holds; nothing of one that is no YAML, which whoever runs the model is told of."""
    try:
        content = yaml_schema.read_yaml(path.parent, path.name)
    except yaml_schema.ConfigError:
        return {}
    return content if isinstance(content, dict) else {}


def _chosen_for(content: Mapping[str, Any]) -> Iterable[tuple[str, Sequence[str]]]:
    """Yield each parameter of a model file that was chosen for published statements, with these as ``study/id``."""
    groups = {**content.get("parameters", {}), "mode_page": content.get("mode_page", {})}
    for group, entries in groups.items():
        for name, entry in entries.items():
            if isinstance(entry, dict) and "chosen_for" in entry:
                yield f"{group}.{name}", entry["chosen_for"]


def with_uses(values: pd.DataFrame, twins: Path | str, study: str, executions: pd.DataFrame) -> pd.DataFrame:
    """Return published values with the column ``use``: the class of each that a twin measured, one of `CLASSES`.

    It is empty where no experiment measures a value or the drive was no twin. ``twins`` is the folder of models.
    ``executions``: as ``quantities.read_executions`` has them.
    """
    making = Making.load(twins, study)
    drive_kinds = dict(zip(executions["drive"], executions["drive_kind"], strict=True))
    by_twin = values["drive_key"].map(drive_kinds).isin(kinds.SIMULATED) & values["experiment"].ne("")
    model_of = dict(zip(executions["drive"], executions["drive_model"], strict=True))
    rows = values.to_dict("records")
    chosen = [bool(making.parameters(model_of.get(row["drive_key"], ""), row["id"])) for row in rows]
    selected = Executions(executions)
    figures = [_measured_by(selected, row) for row in rows]
    fitted = _together(each for each, row in zip(figures, rows, strict=True) if row["id"] in making.fitted)
    made = _together(each for each, is_chosen in zip(figures, chosen, strict=True) if is_chosen)
    found = []
    for each, row, is_chosen in zip(figures, rows, chosen, strict=True):
        if row["id"] in making.fitted or (each and each <= fitted):
            found.append(FITTED)
        elif is_chosen or (each and each <= fitted | made) or not row["value"]:
            found.append(BUILT_IN)
        else:
            found.append(INDEPENDENT)
    return values.assign(use=pd.Series(found, index=values.index, dtype="object").where(by_twin, ""))


def _measured_by(executions: Executions, row: Mapping[Any, Any]) -> frozenset[Figure]:
    """Return the figures that a row of the published values is held against; none where nothing was measured."""
    if not row["experiment"]:
        return frozenset()
    said = {key: row[key] for key in ("rw", "bs") if row[key]}
    levels = {"drive": row["drive_key"], **said, **published.conditions(row["conditions"])}
    rows = executions.of_experiment(row["experiment"]).select(levels)
    family = _family(quantities.get(row["quantity"]).column)
    return frozenset((drive, cell, family) for drive, cell in zip(rows["drive"], rows["cell"], strict=True))


def _together(figures: Iterable[frozenset[Figure]]) -> frozenset[Figure]:
    return frozenset(figure for each in figures for figure in each)


def _family(column: str) -> str:
    """Return what a column of the executions tells: `_RATE` where it follows from a rate."""
    return _RATE if column in _OF_RATE or column.endswith("_mean_ms") else column


class Classifier:
    """Derives the classes of one study's claims and values.

    ``models``: the name of the model of each twin measured, by the name of the drive. ``flips``: by a claim's id the
    mechanisms of models of which each alone makes it fall when it is switched off, where its drives have them as
    assumed or fitted.
    """

    def __init__(
        self,
        making: Making,
        executions: Executions,
        values: pd.DataFrame,
        *,
        listed: Sequence[tuple[Mapping[str, Any], checks.Check | checks.Checks | None]],
        models: Mapping[str, str],
        flips: Mapping[str, Sequence[str]],
    ) -> None:
        self._making, self._models, self._flips = making, models, flips
        # one row a cell: which of its executions a statistic takes makes no difference to what it is computed of
        cells = executions.table.groupby(["drive", "cell"], sort=False, as_index=False).first()
        marked, self._names = _marked(cells)
        self._marked = Executions(marked)
        self._where = list(zip(cells["drive"], cells["cell"], strict=True))
        self._rows = {row["id"]: row for row in values.to_dict("records")}
        self._checks = {claim["id"]: check for claim, check in listed if check is not None}
        self._of_values = {name: _measured_by(executions, row) for name, row in self._rows.items()}
        self._compared = {name: self._of_check(check) for name, check in self._checks.items()}
        self._fitted = {figure for name in making.fitted for figure in self.figures_of_value(name)}
        # what parameters were chosen for: the comparisons of claims, and the figures of values
        self._chosen: dict[Comparison, tuple[str, list[str]]] = {}
        self._made: set[Figure] = set()
        for name in (*self._checks, *self._rows):
            comparisons = self._comparisons(name)
            because = self._direct(name, _drives(comparisons) | self._named_drives(name))
            if because:
                self._chosen |= dict.fromkeys(comparisons, (name, because))
            if because and name in self._rows:
                self._made |= self.figures_of_value(name)

    def figures_of_value(self, name: str) -> frozenset[Figure]:
        """Return the figures that a published value is held against, by its id; none where nothing was measured."""
        return self._of_values.get(name, frozenset())

    def figures_of_claim(self, name: str) -> frozenset[Figure]:
        """Return all figures that a claim is computed of, by its id."""
        return _figures(self._comparisons(name))

    def of_claim(self, name: str, *, holds: bool, drive: str | None = None) -> Class:
        """Return the class of a claim that was measured, by its id; put to a ``drive`` of yours where it is given."""
        check = self._checks[name] if drive is None else self._checks[name].on(drive)
        comparisons = self._compared[name] if drive is None else self._of_check(check) if check else []
        drives = _drives(comparisons) | (self._named_drives(name) if drive is None else {drive})
        if not drives & self._models.keys():
            return Class()
        bounds = check.published_ids() if check else []
        if bound := next((each for each in bounds if each in self._making.fitted), None):
            return Class(FITTED, f"A twin was fitted to {bound}, which it is held against.")
        if comparisons and _figures(comparisons) <= self._fitted:
            return Class(FITTED, "Every figure that it compares is one that a twin was fitted to, or follows from it.")
        if said := self._direct(name, drives):
            return Class(BUILT_IN, _sentence(said, "for it"))
        if bound := next((each for each in bounds if self._direct(each, drives)), None):
            return Class(BUILT_IN, _sentence(self._direct(bound, drives), f"for {bound}, which it is held against"))
        if comparisons and all(self._is_made(each) for each in comparisons):
            chosen = [self._chosen[each] for each in comparisons if each in self._chosen]
            if not chosen:
                return Class(BUILT_IN, "It compares only what models were fitted to, or parameters chosen for.")
            others = dict.fromkeys(other for other, _ in chosen)
            said = list(dict.fromkeys(parameter for _, parameters in chosen for parameter in parameters))
            return Class(BUILT_IN, _sentence(said, f"for {', '.join(others)}, which compares the same"))
        flips = self._flips.get(name, ()) if holds and drive is None else ()
        if flips:
            return Class(BUILT_IN, f"Switching off {' alone, or '.join(flips)} alone makes it fall.")
        fitted = sum(_figures([each]) <= self._fitted for each in comparisons)
        rest = f" Of the {len(comparisons)} comparisons in it {fitted} are of fitted figures alone." if fitted else ""
        return Class(INDEPENDENT, f"No parameter was chosen for it, and no model fitted to all that it compares.{rest}")

    def of_value(self, name: str, through: Class | None) -> Class:
        """Return the class of a value that was measured, by its id; its name is the value's ``use`` of `with_uses`.

        ``through`` is the class of the claim that measures it, where one does.
        """
        if through is not None:
            return through
        row, figures = self._rows[name], self.figures_of_value(name)
        drive = {row["drive_key"]}
        match row["use"]:
            case "":
                return Class()
            case "fitted":
                listed = name in self._making.fitted
                because = "A twin was fitted to it." if listed else "It follows from a fitted value."
            case "built in":
                others = (other for other in self._rows if self.figures_of_value(other) & figures)
                named = next((other for other in (name, *others) if self._direct(other, drive)), None)
                what = "for it" if named == name else f"for {named}, from which it follows"
                because = _sentence(self._direct(named, drive), what) if named else "Nothing of the kind was asked for."
            case _:
                because = "No model was fitted to it, and no parameter chosen for it."
        return Class(row["use"], because)

    def _is_made(self, comparison: Comparison) -> bool:
        return comparison in self._chosen or _figures([comparison]) <= self._fitted | self._made

    def _comparisons(self, name: str) -> list[Comparison]:
        """Return what a claim or value compares, by its id."""
        if name in self._compared:
            return self._compared[name]
        figures = self.figures_of_value(name)
        return [frozenset([figures])] if figures else []

    def _of_check(self, check: checks.Check | checks.Checks) -> list[Comparison]:
        """Return what each part of a check compares."""
        found = []
        for _, part in check.observe(self._marked, ()):
            if isinstance(part, Estimate):
                found.append(frozenset(frozenset(map(self._figure, map(int, group))) for group in part.groups))
        return found

    def _figure(self, mark: int) -> Figure:
        row, column = divmod(mark, len(self._names))
        return (*self._where[row], _family(self._names[column]))

    def _named_drives(self, name: str) -> set[str]:
        """Return the drives that a claim names: one about a setting's outcome has no figures to tell."""
        if name not in self._checks:
            return set()
        return self._checks[name].drives

    def _direct(self, name: str, drives: Iterable[str]) -> list[str]:
        """Return the parameters chosen for a statement in the models of some drives: ``a.b of model`` each."""
        models = dict.fromkeys(self._models[drive] for drive in sorted(drives) if drive in self._models)
        return [f"{each} of {model}" for model in models for each in self._making.parameters(model, name)]


def _marked(executions: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return executions with a number in place of each result that says of which row and column it is; and the columns.

    A statistic that is computed of them tells what it is computed of.
    """
    results = executions.columns[executions.columns.get_loc(_FIRST_RESULT) :]
    names = [name for name in results if pd.api.types.is_numeric_dtype(executions[name])]
    rows = pd.Series(range(len(executions)), index=executions.index, dtype="float64") * len(names)
    marks = {name: (rows + number).where(executions[name].notna()) for number, name in enumerate(names)}
    return executions.assign(**marks), names


def _figures(comparisons: Iterable[Comparison]) -> frozenset[Figure]:
    return frozenset(figure for each in comparisons for group in each for figure in group)


def _drives(comparisons: Iterable[Comparison]) -> set[str]:
    return {drive for drive, _, _ in _figures(comparisons)}


def _sentence(parameters: Sequence[str], what: str) -> str:
    """Return that parameters were chosen for something, in words."""
    if len(parameters) == 1:
        return f"The parameter {parameters[0]} was chosen {what}."
    return f"The parameters {', '.join(parameters[:-1])} and {parameters[-1]} were chosen {what}."
