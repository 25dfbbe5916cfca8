"""Ablation: which claims change their outcome when one mechanism of drives, kernel or file system is switched off."""

import dataclasses
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from iopatterns.base import files, yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import printable
from iopatterns.configuration import config, grid, kinds, sources
from iopatterns.raw import cells, tuning_steps
from iopatterns.twin import models
from iopatterns.twin.error import TwinError

# What is switched off is declared in the first, and what came of it recorded in the second
DECLARED = "config/ablations.yaml"
RECORD = "data/ablation.yaml"
FOLDER = "results/ablation"
# Each cell is measured so often with a mechanism off. Claims are judged by the means alone: with so few executions
# an interval would be wider than many a mechanism's effect
EXECUTIONS = 1
_BY_THE_MEAN = 0.01
# A bound missed by less is not missed: by as much the means of so few executions differ for chance alone
_NOISE = 0.01
# The name of the run in which nothing is off, which all others are held against
NOTHING = "nothing"
_HEAD = """\
# Which claims change their outcome when one mechanism of drives, kernel or file system is switched off, as found by
# `snakemake --cores 2 ablate`, which makes this file. `made_from` has sums, by which a stale one is known.
"""


class AblationError(IoPatternsError):
    """A mechanism cannot be switched off, or the record of what that did cannot be read."""

    exit_status = 2


@dataclasses.dataclass(frozen=True)
class Mechanism:
    """What can be switched off: its name, what it does in a sentence, and what switches it off.

    That of a drive has ``switches``, values of parameters, each for the models that have all parameters in it, or for
    those of ``models`` alone, if any; what a source itself fixes only where ``fixed_by_source``. That of the kernel or
    its file system has ``traces``: by the path of a trace that is replayed that of the one, recorded with the mechanism
    off, that is replayed in its place; on another ``drive`` of config/drives.yaml, if any, for which the programs
    waited. It is ``assumed`` where the source does not say that its programs did so.
    """

    name: str
    says: str
    switches: Sequence[Mapping[str, Any]] = ()
    models: Sequence[str] = ()
    traces: Mapping[str, str] = dataclasses.field(default_factory=dict)
    drive: str | None = None
    fixed_by_source: bool = False
    assumed: bool = False

    @property
    def by(self) -> str:
        """What switches it off: ``set`` or, where that is all of the source, ``source``; or ``traces``.

        Traces of what was assumed are ``assumed``.
        """
        if self.traces:
            return "assumed" if self.assumed else "traces"
        return "source" if self.fixed_by_source else "set"

    @property
    def slug(self) -> str:
        """The name of its files."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.name.lower())

    def without(self, conf: config.Config) -> config.Config:
        """Return the configuration with the mechanism off, of the simulated drives that have it and no others.

        That of the kernel or its file system those have on which a study with claims replays a trace that has another
        in its place. Raises AblationError, GridError.
        """
        conf = simulated(conf)
        if not self.traces:
            switched = {name: off for name, entry in conf.drives.items() if (off := self.off(entry))}
            return dataclasses.replace(conf, drives=switched)
        having = {
            cell.drive
            for study in studies(conf.root, conf)
            for cell in grid.expand(conf, study)
            if "replay" in cell.specification and cell.specification["replay"]["trace"] in self.traces
        }
        drives = {name: entry for name, entry in conf.drives.items() if name in having}
        if self.drive is not None:
            drives = dict.fromkeys(drives, config.read_drive(conf.root, self.drive))
        return dataclasses.replace(conf, drives=drives, instead=self.traces)

    def off(self, drive: kinds.Resolved) -> kinds.Resolved | None:
        """Return a twin's entry with the mechanism off; None for a drive that does not have it.

        A drive has it where switching off changes a parameter that was assumed or fitted; or, where the mechanism is
        ``fixed_by_source``, one that is of a data sheet, as all of it must be then. Raises AblationError.
        """
        if not kinds.is_simulated(drive) or (self.models and drive["model"] not in self.models):
            return None
        place = f"{DECLARED}: {self.name}: set:"
        try:
            model = models.load(drive["model"])
            present = model.overridden(f"{name}={value}" for name, value in drive.get("set", {}).items())
            changed: dict[str, Any] = {}
            for switch in self.switches:
                if switch.keys() <= present.values.keys():
                    switched = present.with_values(switch, place).values
                    changed |= {name: switched[name] for name in switch if switched[name] != present.values[name]}
            ours = [name for name in changed if model.sources[name][0] != "datasheet"]
            if ours and self.fixed_by_source:
                raise AblationError(
                    f"{DECLARED}: {self.name}: fixed_by_source: {ours[0]} of {drive['model']} is no data sheet's but"
                    f" {model.sources[ours[0]][0]}. Leave the key out."
                )
            if not (changed if self.fixed_by_source else ours):
                return None
            digest = present.replaced(changed).digest
        except TwinError as error:
            raise AblationError(str(error)) from None
        values = {name: models.format_value(name, value) for name, value in changed.items()}
        return {**drive, "set": {**drive.get("set", {}), **values}, "model_digest": digest}


def simulated(conf: config.Config) -> config.Config:
    """Return the configuration with its simulated drives alone."""
    drives = {name: entry for name, entry in conf.drives.items() if kinds.is_simulated(entry)}
    return dataclasses.replace(conf, drives=drives)


def mechanisms(root: Path) -> list[Mechanism]:
    """Return the mechanisms that are declared.

    Raises ConfigError, or AblationError for an unknown model, parameter or trace.
    """
    content = yaml_schema.read_yaml(root, DECLARED)
    yaml_schema.check(DECLARED, content, yaml_schema.read_yaml(root, "workflow/schemas/ablations.schema.yaml"))
    found = [
        Mechanism(
            name,
            body["says"],
            body.get("set", ()),
            body.get("models", ()),
            body.get("traces", {}),
            body.get("drive"),
            body.get("fixed_by_source", False),
            body.get("assumed", False),
        )
        for name, body in content["mechanisms"].items()
    ]
    known, shipped = models.declared(), models.names()
    for mechanism in found:
        for model in (model for model in mechanism.models if model not in shipped):
            near = yaml_schema.nearest(model, shipped)
            raise AblationError(f"{DECLARED}: {mechanism.name}: models: there is no '{printable(model)}'.{near}")
        for name in (name for switch in mechanism.switches for name in switch):
            if name not in known:
                near = yaml_schema.nearest(name, known)
                raise AblationError(f"{DECLARED}: {mechanism.name}: twins have no parameter '{printable(name)}'.{near}")
    _check_traces(root, found)
    return found


def _check_traces(root: Path, declared: Sequence[Mechanism]) -> None:
    """Raise AblationError where a trace stands in the place of one that nothing replays, or is not there."""
    if not any(mechanism.traces for mechanism in declared):
        return  # reading all studies takes longer than all else here
    replayed = {trace for traces in config.replayed(root).values() for trace in traces}
    drives = {name for name, entry in config.read_drives(root).items() if kinds.is_simulated(entry)}
    for mechanism in declared:
        if mechanism.drive is not None and mechanism.drive not in drives:
            place = f"{DECLARED}: {mechanism.name}: drive:"
            near = yaml_schema.nearest(mechanism.drive, drives)
            raise AblationError(f"{place} config/drives.yaml has no twin '{printable(mechanism.drive)}'.{near}")
        for trace, other in mechanism.traces.items():
            place = f"{DECLARED}: {mechanism.name}: traces:"
            if trace not in replayed:
                near = yaml_schema.nearest(trace, replayed)
                raise AblationError(f"{place} no experiment of a study replays '{printable(trace)}'.{near}")
            if not _is_file(root / other):
                there = (str(Path(trace).with_name(path.name)) for path in (root / trace).parent.glob("*.parquet"))
                near = yaml_schema.nearest(other, there)
                raise AblationError(f"{place} there is no file '{printable(other)}'.{near}")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as of a name that no file can have
        return False


def runs(root: Path) -> list[str]:
    """Return the names of the files of all runs: that with nothing off, and one for each mechanism."""
    return [NOTHING, *(each.slug for each in mechanisms(root))]


def studies(root: Path, conf: config.Config) -> list[str]:
    """Return the studies whose source claims anything."""
    return [study for study in conf.studies if claims(root, study)]


def claims(root: Path, study: str) -> list[dict[str, Any]]:
    """Return the claims of a study's source, as its claims.yaml has them; none where it claims nothing."""
    if not sources.has_published(root, study):
        return []
    found: list[dict[str, Any]] = yaml_schema.read_yaml(root, _claims_file(study)).get("claims", [])
    return found


def _claims_file(study: str) -> str:
    return f"data/published/{study}/claims.yaml"


def record(root: Path, overrides: Mapping[str, Any], measured: Path) -> str:
    """Judge what `ablation_runs.run` left in folders below ``measured``, write the record, and return it in words.

    What an earlier record has of studies that are not among these is kept where it is not stale.
    """
    conf = config.load(root, overrides)
    declared = mechanisms(root)
    flips: dict[str, dict[str, list[str]]] = {}
    for study in studies(root, conf):
        before = _outcomes(root, study, [measured / NOTHING])
        found: dict[str, list[str]] = {}
        for mechanism in declared:
            folder = measured / mechanism.slug
            if not (folder / f"{study}.parquet").exists():
                continue
            after = _outcomes(root, study, [folder, measured / NOTHING])
            for claim in before:
                if claim in after and before[claim] != after[claim]:
                    found.setdefault(claim, []).append(mechanism.name)
        flips[study] = dict(sorted(found.items()))
    lines = [
        f"{study}: {claim}: {', '.join(names)}" for study, found in flips.items() for claim, names in found.items()
    ]
    kept, left_out = _kept(root, overrides, flips)
    if kept:
        flips = {**kept, **flips}
        usual = {name: value for name, value in overrides.items() if name != "studies"}
        conf = config.load(root, {**usual, "studies": [*dict.fromkeys([*config.load(root, usual).studies, *flips])]})
    content = {
        "executions": EXECUTIONS,
        "made_from": _sums(root, conf),
        "drives": {mechanism.name: list(mechanism.without(conf).drives) for mechanism in declared},
        "flips": flips,
    }
    text = _HEAD + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
    files.write(root / RECORD, lambda temporary: _fill(temporary, text))
    return "\n".join([*lines, *left_out, f"{RECORD}: written"])


def _kept(root: Path, overrides: Mapping[str, Any], made: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the flips of all studies of the present record, of which those not ``made`` now are to be kept.

    Where what these rest on has changed, there are none, and a line says so.
    """
    try:
        before = yaml_schema.read_yaml(root, RECORD) if (root / RECORD).exists() else {"flips": {}}
        known = {study: flips for study, flips in before["flips"].items() if (root / _files_of(study)[0]).exists()}
        others = [study for study in known if study not in made]
        if not others:
            return {}, []
        present = _sums(root, config.load(root, {**overrides, "studies": others}))
        changed = sorted(file for file, value in present.items() if before["made_from"].get(file) != value)
    except (AttributeError, KeyError, TypeError):  # it is no record
        return {}, []
    if changed:
        return {}, [f"{RECORD}: {', '.join(others)}: left out, since these have changed: {', '.join(changed)}"]
    return known, []


def _fill(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _outcomes(root: Path, study: str, folders: Sequence[Path]) -> dict[str, bool]:
    """Return whether each claim of a study holds by the means of what was measured; unmeasured ones are left out.

    A claim whose statistic does not exist, for a mean in it is zero, does not hold.

    A drive's measurement is that of the first folder that has it.
    """
    import pandas as pd

    from iopatterns.analysis import published, quantities
    from iopatterns.judging import checks
    from iopatterns.judging.checks.findings import REPRODUCED, WITHIN, ClaimsError
    from iopatterns.judging.claims import Judge

    tables, steps = [], []
    known: set[str] = set()
    for folder in folders:
        table = quantities.read_executions(folder / f"{study}.parquet")
        tuned = tuning_steps.read_records(folder / f"{study}.tuning.json")
        tables.append(table[~table["drive"].isin(known)])
        steps += [step for step in tuned if step["drive"] not in known]
        known |= {*table["drive"], *(step["drive"] for step in tuned)}
    judge = Judge(pd.concat(tables, ignore_index=True), steps, _BY_THE_MEAN)
    values = published.load(root / "data/published" / study)
    outcomes = {}
    for claim in claims(root, study):
        check = checks.of_claim(claim, values)
        if check is None:
            continue
        try:
            parts = judge.parts(check)
        except ClaimsError:  # with a mechanism off a mean may be zero, by which the statistic divides
            outcomes[claim["id"]] = False
            continue
        # a margin around 1 is judged by a test, which may leave open what lies within it
        held = [
            part.status in {REPRODUCED, WITHIN} or (not isinstance(part.value, str) and part.off <= _NOISE)
            for part in parts
        ]
        if held:
            outcomes[claim["id"]] = all(held)
    return outcomes


def traces(root: Path, of_studies: Iterable[str]) -> dict[str, list[str]]:
    """Return for each of some studies the paths of the traces that the outcome of its claims rests on.

    They are those that it replays, and those in their place with a mechanism off, as far as they are there.
    """
    replayed, declared = config.replayed(root), mechanisms(root)
    found = {}
    for study in of_studies:
        of_study = replayed.get(study, set())
        others = {mechanism.traces[trace] for mechanism in declared for trace in of_study & mechanism.traces.keys()}
        found[study] = sorted(path for path in of_study | others if _is_file(root / path))
    return found


def _sums(root: Path, conf: config.Config) -> dict[str, str]:
    """Return a sum of all that the outcome rests on, by file: of models what the drive does, of others the content.

    The traces of a study have one for all of them.
    """
    of_models = {drive["model"] for drive in conf.drives.values() if kinds.is_simulated(drive)}
    sums = {f"data/twins/{name}.yaml": models.load(name).digest[:16] for name in sorted(of_models)}
    others_of = {each.drive for each in mechanisms(root) if each.drive is not None}
    of_drives = {**conf.drives, **{name: config.read_drive(root, name) for name in sorted(others_of)}}
    for name, drive in of_drives.items():
        if kinds.is_simulated(drive) and drive.get("set"):
            sums[f"drive {name}"] = _sum([drive["model"], drive["set"]])
    others = [DECLARED, *(file for study in studies(root, conf) for file in _files_of(study))]
    for file in others:
        content = yaml_schema.read_yaml(root, file)
        if file.endswith("claims.yaml"):  # what is said about a claim decides nothing
            content = {claim["id"]: [claim.get("check"), claim.get("checks")] for claim in content["claims"]}
        sums[file] = _sum(content)
    for study, paths in traces(root, studies(root, conf)).items():
        if paths:
            sums[f"traces of {study}"] = _sum({path: files.sha256(root / path) for path in paths})
    settings = {"runtime_ms": conf.runtime_ms, "file_size_bytes": conf.file_size_bytes, "seed": conf.seed}
    return {**sums, config.CONFIG_FILE: _sum(settings)}


def _files_of(study: str) -> tuple[str, str]:
    return f"{config.STUDIES_FOLDER}/{study}.yaml", _claims_file(study)


def _sum(content: Any) -> str:
    return hashlib.sha256(cells.canonical(content).encode()).hexdigest()[:16]


def load(root: Path, overrides: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """Return what the record says of each study: mechanisms (name, what they do, and by what they are switched off,
    ``set``, ``source``, ``traces`` or ``assumed``), flips, and stale, a list of what has changed since it was
    made. Nothing where there is no record. Raises AblationError, ConfigError.
    """
    if not (root / RECORD).exists():
        return {}
    content = yaml_schema.read_yaml(root, RECORD)
    try:
        made_from, flips = content["made_from"], content["flips"]
        present = _sums(root, config.load(root, overrides))
        stale = sorted(file for file, value in present.items() if made_from.get(file, value) != value)
        told = [
            {"name": each.name, "says": each.says, "by": each.by}
            for each in mechanisms(root)
            if each.name in content["drives"]
        ]
        return {study: {"mechanisms": told, "flips": found, "stale": stale} for study, found in flips.items()}
    except (AttributeError, KeyError, TypeError):
        raise AblationError(
            f"{RECORD}: is no record of an ablation. Make it anew: snakemake --cores 2 ablate"
        ) from None
