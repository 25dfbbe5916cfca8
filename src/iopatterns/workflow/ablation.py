"""Ablation: which claims change their outcome when one mechanism of drives, kernel or file system is switched off."""

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from iopatterns.base import files, yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import printable
from iopatterns.configuration import config, drive_entries, grid, kinds, schemas, study_files
from iopatterns.raw import cells, tuning_steps
from iopatterns.twin import models
from iopatterns.twin.error import TwinError

# The mechanisms of the drives of all studies; the file of a study has those of this study alone
MECHANISMS_FILE = "config/ablations.yaml"
ABLATION_FOLDER = "results/ablation"
# Each cell is measured so often with a mechanism off. Claims are judged by the means alone: with so few executions
# an interval would be wider than many a mechanism's effect
ABLATION_REPETITIONS = 1
_BY_THE_MEAN = 0.01
# A bound missed by less is not missed: by as much the means of so few executions differ for chance alone
_NOISE = 0.01
# The name of the run in which nothing is off, with which all others are compared
BASELINE_RUN = "nothing"
_HEAD = """\
# Which claims of the study change their outcome when one mechanism of drives, kernel or file system is switched off, as
# found by `snakemake --cores 2 ablate`, which makes this file. `made_from` has sums, by which a stale file is known;
# `load_mechanisms` has the drives on which each was switched off.
"""


class AblationError(IoPatternsError):
    """A mechanism cannot be switched off, or the record of what that did cannot be read."""

    exit_status = 2


@dataclasses.dataclass(frozen=True)
class Mechanism:
    """Something that drives, kernel or file system do, and what switches it off.

    Attributes:
        name: The name under which it is declared.
        says: What it does, in a sentence.
        study: The study in whose file it is declared and whose cells alone it is switched off in; None for all studies.
        switches: Values of parameters that switch it off, each for the models that have all parameters in it.
        models: The models that it is limited to; none for no limit.
        traces: Of the kernel or its file system: by the path of a trace that is replayed, the trace that is replayed in
            its place, recorded with the mechanism off.
        drive: The simulated drive for which the programs waited, on which those traces are replayed; None for the
            drive of the cell.
        fixed_by_source: Whether all that ``switches`` change is of a data sheet or a source.
        assumed: Whether the source does not say that its programs did so.
    """

    name: str
    says: str
    study: str | None = None
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
        """The name of its run and files; that of a study's own mechanism begins with the study."""
        name = "".join(letter if letter.isalnum() else "-" for letter in self.name.lower())
        return name if self.study is None else f"{self.study}.{name}"

    @property
    def file(self) -> str:
        """The file in which it is declared."""
        return MECHANISMS_FILE if self.study is None else study_files.GRID.format(study=self.study)

    @property
    def place(self) -> str:
        """Where it is declared, for messages."""
        return f"{self.file}: mechanisms.{self.name}"

    def concerns(self, study: str) -> bool:
        """Return whether it may be switched off in cells of a study."""
        return self.study in {None, study}

    def without(self, conf: config.Config) -> config.Config:
        """Return the configuration with the mechanism off, of the simulated drives that have it and no others.

        A mechanism of the kernel or its file system is had by the drives on which the study replays a trace that has
        another in its place. Raises AblationError, ConfigError.
        """
        conf = simulated_drives_only(conf)
        concerned = {study: content for study, content in conf.studies.items() if self.concerns(study)}
        conf = dataclasses.replace(conf, studies=concerned)
        if not self.traces:
            switched = {name: off for name, entry in conf.drives.items() if (off := self.off(entry))}
            return dataclasses.replace(conf, drives=switched)
        having = {
            cell.drive
            for study in studies_with_claims(conf)
            for cell in grid.expand_grid(conf, study)
            if "replay" in cell.specification and cell.specification["replay"]["trace"] in self.traces
        }
        drives = {name: entry for name, entry in conf.drives.items() if name in having}
        if self.drive is not None:
            drives = dict.fromkeys(drives, drive_entries.read_drive_entries(conf.root).resolved(self.drive))
        return dataclasses.replace(conf, drives=drives, instead=self.traces)

    def off(self, drive: kinds.ResolvedEntry) -> kinds.ResolvedEntry | None:
        """Return a twin's entry with the mechanism off; None for a drive that does not have it.

        A drive has it where switching off changes a parameter that was assumed or fitted; or, where the mechanism is
        ``fixed_by_source``, one that is of a data sheet, as all of it must be then. Raises AblationError.
        """
        if not kinds.is_simulated(drive) or (self.models and drive["model"] not in self.models):
            return None
        try:
            model = models.load_model(drive["model"])
            present = model.overridden(f"{name}={value}" for name, value in drive.get("set", {}).items())
            changed: dict[str, Any] = {}
            for switch in self.switches:
                if switch.keys() <= present.values.keys():
                    switched = present.with_values(switch, f"{self.place}: set:").values
                    changed |= {name: switched[name] for name in switch if switched[name] != present.values[name]}
            ours = [name for name in changed if model.sources[name][0] != "datasheet"]
            if ours and self.fixed_by_source:
                raise AblationError(
                    f"{self.place}: fixed_by_source: {ours[0]} of {drive['model']} is no data sheet's but"
                    f" {model.sources[ours[0]][0]}. Leave the key out."
                )
            if not (changed if self.fixed_by_source else ours):
                return None
            digest = present.replaced(changed).digest
        except TwinError as error:
            raise AblationError(str(error)) from None
        values = {name: models.format_value(name, value) for name, value in changed.items()}
        return {**drive, "set": {**drive.get("set", {}), **values}, "model_digest": digest}


def simulated_drives_only(conf: config.Config) -> config.Config:
    """Return the configuration with its simulated drives alone."""
    drives = {name: entry for name, entry in conf.drives.items() if kinds.is_simulated(entry)}
    return dataclasses.replace(conf, drives=drives)


def load_mechanisms(conf: config.Config) -> list[Mechanism]:
    """Return the mechanisms of all studies, then those that the configured studies declare for themselves.

    Raises ConfigError, or AblationError for an unknown model, parameter, drive or trace, or a name that is declared
    twice.
    """
    content = yaml_schema.read_yaml(conf.root, MECHANISMS_FILE)
    yaml_schema.require_valid(MECHANISMS_FILE, content, schemas.load_schema(conf.root, "ablations"))
    found = [_mechanism(name, None, body) for name, body in content["mechanisms"].items()]
    for study, of_study in conf.studies.items():
        found += [_mechanism(name, study, body) for name, body in of_study.get("mechanisms", {}).items()]
    known, shipped = models.declared_parameters(), models.list_models()
    for mechanism in found:
        if mechanism.study is None and mechanism.traces:
            raise AblationError(
                f"{mechanism.place}: traces: each trace belongs to a study. Declare the mechanism under `load_mechanisms` in"
                f" {study_files.GRID.format(study='<study>')}."
            )
        if mechanism.study is not None and mechanism.name in content["mechanisms"]:
            raise AblationError(
                f"{mechanism.place}: {MECHANISMS_FILE} has a mechanism of this name. Take another name."
            )
        for model in (model for model in mechanism.models if model not in shipped):
            near = yaml_schema.did_you_mean(model, shipped)
            raise AblationError(f"{mechanism.place}: models: there is no '{printable(model)}'.{near}")
        for name in (name for switch in mechanism.switches for name in switch):
            if name not in known:
                near = yaml_schema.did_you_mean(name, known)
                raise AblationError(f"{mechanism.place}: twins have no parameter '{printable(name)}'.{near}")
    _check_traces(conf, found)
    return found


def _mechanism(name: str, study: str | None, body: Mapping[str, Any]) -> Mechanism:
    more = {key: body[key] for key in ("models", "traces", "drive", "fixed_by_source", "assumed") if key in body}
    return Mechanism(name, body["says"], study, body.get("set", ()), **more)


def _check_traces(conf: config.Config, declared: Sequence[Mechanism]) -> None:
    """Raise AblationError where a trace is to replace one that its study does not replay, or is not there."""
    replayed = config.replayed_traces(conf)
    entries = (
        drive_entries.read_drive_entries(conf.root).entries if any(mechanism.drive for mechanism in declared) else {}
    )
    drives = [name for name, entry in entries.items() if kinds.is_simulated(entry)]
    for mechanism in declared:
        if mechanism.drive is not None and mechanism.drive not in drives:
            near, shown = yaml_schema.did_you_mean(mechanism.drive, drives), printable(mechanism.drive)
            raise AblationError(f"{mechanism.place}: drive: there is no simulated drive '{shown}'.{near}")
        for trace, other in mechanism.traces.items():
            of_study = replayed[str(mechanism.study)]
            if trace not in of_study:
                near = yaml_schema.did_you_mean(trace, of_study)
                raise AblationError(
                    f"{mechanism.place}: traces: no experiment of the study replays '{printable(trace)}'.{near}"
                )
            if not _is_file(conf.root / other):
                folder = (conf.root / trace).parent
                there = (str(Path(trace).with_name(path.name)) for path in folder.glob("*.parquet"))
                near = yaml_schema.did_you_mean(other, there)
                raise AblationError(f"{mechanism.place}: traces: there is no file '{printable(other)}'.{near}")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as of a name that no file can have
        return False


def ablation_runs_by_name(conf: config.Config) -> dict[str, str]:
    """Return the names of all runs, with nothing off and with each mechanism off, and the file that declares each."""
    return {BASELINE_RUN: MECHANISMS_FILE, **{each.slug: each.file for each in load_mechanisms(conf)}}


def studies_with_claims(conf: config.Config) -> list[str]:
    """Return the configured studies whose source claims anything."""
    return [study for study in conf.studies if claims_if_any(conf.root, study)]


def claims_if_any(root: Path, study: str) -> list[dict[str, Any]]:
    """Return the claims in a study's claims.yaml; none without the file, which the check of all inputs reports."""
    if not (root / _claims_file(study)).exists():
        return []
    found: list[dict[str, Any]] = yaml_schema.read_yaml(root, _claims_file(study)).get("claims", [])
    return found


def _claims_file(study: str) -> str:
    return f"{study_files.PUBLISHED_PLACE.format(study=study)}/claims.yaml"


def cells_used_by_claims(conf: config.Config, study: str) -> list[grid.Cell]:
    """Return the cells of which the claims of a study are computed."""

    def named(content: Any) -> Iterator[str]:
        if isinstance(content, dict):
            if isinstance(content.get("experiment"), str):
                yield content["experiment"]
            content = list(content.values())
        if isinstance(content, list):
            for each in content:
                yield from named(each)

    checks = [[claim.get("check"), claim.get("checks")] for claim in claims_if_any(conf.root, study)]
    asked = set(named(checks))
    return [cell for cell in grid.expand_grid(conf, study) if asked & set(cell.experiments)]


def record_ablation(root: Path, overrides: Mapping[str, Any], measured: Path) -> str:
    """Judge what `ablation_runs.run` left in folders below ``measured``, write the records, and return them in words.

    There is a record for each configured study with claims. Records of other studies stay as they are.
    """
    conf = config.load_config(root, overrides)
    declared = load_mechanisms(conf)
    without = [(mechanism, mechanism.without(conf)) for mechanism in declared]
    lines, written = [], []
    for study in studies_with_claims(conf):
        before = _outcomes(root, study, [measured / BASELINE_RUN])
        tried: dict[str, list[str]] = {}
        flips: dict[str, list[str]] = {}
        for mechanism, off in without:
            drives = [cell.drive for cell in cells_used_by_claims(off, study)] if mechanism.concerns(study) else []
            if not drives:
                continue
            tried[mechanism.name] = list(dict.fromkeys(drives))
            after = _outcomes(root, study, [measured / mechanism.slug, measured / BASELINE_RUN])
            for claim in before:
                if claim in after and before[claim] != after[claim]:
                    flips.setdefault(claim, []).append(mechanism.name)
        flips = dict(sorted(flips.items()))
        lines += [f"{study}: {claim}: {', '.join(names)}" for claim, names in flips.items()]
        content = {
            "executions": ABLATION_REPETITIONS,
            "made_from": _sums(conf, study, declared),
            "mechanisms": tried,
            "flips": flips,
        }
        text = _HEAD + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
        file = study_files.ABLATION.format(study=study)
        files.write_text(root / file, text)
        written.append(f"{file}: written")
    return "\n".join([*lines, *written])


def _outcomes(root: Path, study: str, folders: Sequence[Path]) -> dict[str, bool]:
    """Return whether each claim of a study holds by the means of what was measured; unmeasured ones are left out.

    A claim whose statistic does not exist, for a mean in it is zero, does not hold.

    A drive's measurement is that of the first folder that has it.
    """
    import pandas as pd

    from iopatterns.analysis import published, quantities
    from iopatterns.judging.check_statistics import ClaimsError
    from iopatterns.judging.claims import COUNT_AS_REPRODUCED, ClaimChecks, Judge

    tables, steps = [], []
    known: set[str] = set()
    for folder in folders:
        table = quantities.read_executions(folder / f"{study}.parquet")
        tuned = tuning_steps.read_tuning_records(folder / f"{study}.tuning.json")
        tables.append(table[~table["drive"].isin(known)])
        steps += [step for step in tuned if step["drive"] not in known]
        known |= {*table["drive"], *(step["drive"] for step in tuned)}
    judge = Judge(pd.concat(tables, ignore_index=True), steps, _BY_THE_MEAN)
    values = published.load_values(root / "data/published" / study)
    outcomes = {}
    for claim in claims_if_any(root, study):
        check = ClaimChecks.parse(claim, values)
        if check is None:
            continue
        try:
            parts = judge.results(check)
        except ClaimsError:  # with a mechanism off a mean may be zero, by which the statistic divides
            outcomes[claim["id"]] = False
            continue
        # a margin around 1 is judged by a test, which may leave open what lies within it
        held = [
            part.status in COUNT_AS_REPRODUCED or (not isinstance(part.value, str) and part.off <= _NOISE)
            for part in parts
        ]
        if held:
            outcomes[claim["id"]] = all(held)
    return outcomes


def _traces(conf: config.Config, study: str, declared: Sequence[Mechanism]) -> list[str]:
    """Return the traces that a study replays, and those in their place with a mechanism off, as far as they exist."""
    replayed = config.replayed_traces(conf)[study]
    of_study = (mechanism for mechanism in declared if mechanism.concerns(study))
    others = {mechanism.traces[trace] for mechanism in of_study for trace in replayed & mechanism.traces.keys()}
    return sorted(path for path in replayed | others if _is_file(conf.root / path))


def ablation_trace_files(conf: config.Config) -> list[str]:
    """Return the traces that an ablation replays for the configured studies."""
    declared = load_mechanisms(conf)
    return sorted({trace for study in studies_with_claims(conf) for trace in _traces(conf, study, declared)})


def ablation_input_files(conf: config.Config) -> list[str]:
    """Return the files that say what an ablation found and whether that is stale; none before there has been one."""
    records = [study_files.ABLATION.format(study=study) for study in studies_with_claims(conf)]
    there = [file for file in records if (conf.root / file).exists()]
    if not there:
        return []
    declared = dict.fromkeys([MECHANISMS_FILE, *(mechanism.file for mechanism in load_mechanisms(conf))])
    return [*declared, *there, *ablation_trace_files(conf)]


def _sums(conf: config.Config, study: str, declared: Sequence[Mechanism]) -> dict[str, str]:
    """Return a sum of all that the outcome of a study's claims rests on, by file.

    The sum of a model is of what the drive does, that of any other file of its content. All traces have one sum.
    """
    experiments = conf.studies[study]["experiments"]
    named = {drive for experiment in experiments for drive in grid.drives_of_experiment(conf, study, experiment)}
    drives = {name: conf.drives[name] for name in conf.drives if name in named}
    if others := {each.drive for each in declared if each.drive is not None and each.concerns(study)}:
        known = drive_entries.read_drive_entries(conf.root)
        drives |= {name: known.resolved(name) for name in sorted(others)}
    twins = {name: entry for name, entry in drives.items() if kinds.is_simulated(entry)}
    sums = {
        f"data/twins/{model}.yaml": models.load_model(model).digest[:16]
        for model in sorted({entry["model"] for entry in twins.values()})
    }
    sums |= {f"drive {name}": _sum([entry["model"], entry["set"]]) for name, entry in twins.items() if entry.get("set")}
    sums |= {
        file: _sum(yaml_schema.read_yaml(conf.root, file))
        for file in (MECHANISMS_FILE, study_files.GRID.format(study=study))
    }
    # what is said about a claim decides nothing
    checks = {claim["id"]: [claim.get("check"), claim.get("checks")] for claim in claims_if_any(conf.root, study)}
    sums[_claims_file(study)] = _sum(checks)
    if paths := _traces(conf, study, declared):
        sums["traces"] = _sum({path: files.sha256(conf.root / path) for path in paths})
    settings = {"runtime_ms": conf.runtime_ms, "file_size_bytes": conf.file_size_bytes, "seed": conf.seed}
    return {**sums, config.CONFIG_FILE: _sum(settings)}


def _sum(content: Any) -> str:
    return hashlib.sha256(cells.canonical_json(content).encode()).hexdigest()[:16]


def load_ablation_records(root: Path, overrides: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """Return the records of the configured studies by study; a study without a record is left out.

    Keys: mechanisms (name, says, and by, see `Mechanism.by`), flips (mechanisms by claim), and stale, a list of what
    has changed since the record was made. Raises AblationError, ConfigError.
    """
    conf = config.load_config(root, overrides)
    declared = load_mechanisms(conf)
    found = {}
    for study in studies_with_claims(conf):
        file = study_files.ABLATION.format(study=study)
        if not (root / file).exists():
            continue
        content = yaml_schema.read_yaml(root, file)
        try:
            made_from, tried, flips = content["made_from"], content["mechanisms"], content["flips"]
            stale = sorted(
                name for name, value in _sums(conf, study, declared).items() if made_from.get(name, value) != value
            )
            present = [
                {"name": each.name, "says": each.says, "by": each.by}
                for each in declared
                if each.concerns(study) and each.name in tried
            ]
        except (AttributeError, KeyError, TypeError):
            raise AblationError(
                f"{file}: is no record of an ablation. Make it again: snakemake --cores 2 ablate"
            ) from None
        found[study] = {"mechanisms": present, "flips": flips, "stale": stale}
    return found
