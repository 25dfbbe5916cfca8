"""Find claims that depend on one mechanism of drives, kernel or file system.

A claim is a published statement that is checked against measurements. A mechanism is something that a simulated drive,
the kernel or its file system does, such as read-ahead. The cells that claims use are measured again with one mechanism
switched off. A claim depends on the mechanism if its outcome changes. A cell is one configuration: a drive, its
settings and a workload.

The results are the committed ablation records, data/ablation/<study>.yaml.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from iopatterns.base import yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import printable
from iopatterns.configuration import committed_records, config, drive_entries, grid, kinds, schemas, study_files
from iopatterns.raw import tuning_steps
from iopatterns.twin import models
from iopatterns.twin.error import TwinError

# Mechanisms of the drives of all studies. A study's own mechanisms are in the study's file.
MECHANISMS_FILE = "config/ablations.yaml"
ABLATION_FOLDER = "results/ablation"
ABLATION_REPETITIONS = 1  # of each cell
# The name of the run without a switched-off mechanism, which all other runs are compared with
BASELINE_RUN = "nothing"
_HEAD = """\
# The claims of the study that change their outcome when one mechanism of drives, kernel or file system is switched off.
# `snakemake --cores 2 ablate` makes this file. `made_from` has checksums that show whether the file is stale.
# `mechanisms` has the drives on which each mechanism was switched off.
"""


class AblationError(IoPatternsError):
    """A mechanism cannot be switched off, or an ablation record cannot be read.

    A mechanism is something that a simulated drive, the kernel or its file system does, such as read-ahead. An ablation
    switches off one mechanism at a time, and finds the claims whose outcome changes. Its record is
    data/ablation/<study>.yaml.
    """

    exit_status = 2


@dataclasses.dataclass(frozen=True)
class Mechanism:
    """A mechanism of drives, kernel or file system that can be switched off.

    A mechanism is something that a simulated drive, the kernel or its file system does, such as read-ahead. It is
    declared in config/ablations.yaml or in a study's file.

    A mechanism of a drive is switched off by other parameter values (`switches`). A mechanism of the kernel or file
    system is switched off by replaying other traces (`traces`), which were recorded without the mechanism. A trace
    lists requests to a drive.

    Attributes:
        name: The name under which the mechanism is declared, such as ``one stream of read-ahead``.
        description: What the drive, kernel or file system does, in a sentence.
        study: The study whose file declares the mechanism. The mechanism is switched off in cells of this study only.
            None if config/ablations.yaml declares the mechanism, which then applies to all studies.
        switches: Mappings of parameters to the values that switch the mechanism off: ``[{"read_cache.size": 0},
            {"disk.read_cache": False}]``. A mapping applies to each model of a drive that has all its parameters.
        models: The names of the models that have the mechanism; empty for no limit.
        traces: A mapping of the path of the trace that a cell replays to the path of the trace to replay instead. Empty
            for a mechanism of a drive.
        drive: The simulated drive on which the traces in `traces` are replayed; None for the drive of the cell.
        fixed_by_source: Whether a data sheet or source states all parameters that `switches` changes.
        assumed: Whether the source does not state that its programs had this mechanism. It may have been inferred from
            the numbers of the source (key ``chosen_for``).
    """

    name: str
    description: str
    study: str | None = None
    switches: Sequence[Mapping[str, Any]] = ()
    models: Sequence[str] = ()
    traces: Mapping[str, str] = dataclasses.field(default_factory=dict)
    drive: str | None = None
    fixed_by_source: bool = False
    assumed: bool = False

    @property
    def kind(self) -> str:
        """How the mechanism is switched off, in a word that ablation records use.

        - ``source``: by parameters of the simulated drive, all of which a source states (`fixed_by_source`).
        - ``set``: by other parameters of the simulated drive.
        - ``assumed``: by traces that were recorded without the mechanism. The source does not state the mechanism
          (`assumed`).
        - ``traces``: by traces that were recorded without the mechanism. The source states the mechanism.
        """
        if self.traces:
            return "assumed" if self.assumed else "traces"
        return "source" if self.fixed_by_source else "set"

    @property
    def slug(self) -> str:
        """The name of the mechanism in file names, such as ``one-stream-of-read-ahead``.

        The slug is the name in lower case, with hyphens in place of blanks and punctuation. If a study declares the
        mechanism, the name of the study and a dot come first.
        """
        name = "".join(letter if letter.isalnum() else "-" for letter in self.name.lower())
        return name if self.study is None else f"{self.study}.{name}"

    @property
    def file(self) -> str:
        """The path of the file that declares the mechanism, relative to the project.

        The file is config/ablations.yaml or a study's file.
        """
        return MECHANISMS_FILE if self.study is None else study_files.GRID.format(study=self.study)

    @property
    def place(self) -> str:
        """The file and key that declare the mechanism, for error messages.

        An example is ``config/ablations.yaml: mechanisms.read-ahead``.
        """
        return f"{self.file}: mechanisms.{self.name}"

    def applies_to(self, study: str) -> bool:
        """Return whether the mechanism may be switched off in cells of a study.

        The result is false only if another study declares the mechanism.

        Args:
            study: The name of the study.
        """
        return self.study in {None, study}

    def switched_off_in(self, conf: config.Config) -> config.Config:
        """Return a configuration in which the mechanism is switched off.

        The returned configuration has only the studies that the mechanism applies to, and only the simulated drives
        that have the mechanism. Which drives have it depends on the kind of mechanism:

        - A mechanism with `traces`: drives with a cell that replays one of the traces to replace.
        - Any other mechanism: drives for which `switched_off` returns an entry.

        Args:
            conf: The configuration with the mechanism. It is not changed.

        Raises:
            AblationError: A parameter value is invalid.
            ConfigError: The configuration is invalid.
        """
        conf = simulated_drives_only(conf)
        studies = {study: content for study, content in conf.studies.items() if self.applies_to(study)}
        conf = dataclasses.replace(conf, studies=studies)
        if not self.traces:
            switched = {name: off for name, entry in conf.drives.items() if (off := self.switched_off(entry))}
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
        return dataclasses.replace(conf, drives=drives, trace_replacements=self.traces)

    def switched_off(self, drive: kinds.ResolvedEntry) -> kinds.ResolvedEntry | None:
        """Return a drive's entry of config/drives.yaml with the mechanism switched off.

        The drive has the mechanism if both of these are true:

        - `models` is empty or contains the model of the drive.
        - `switches` changes a parameter of the drive that does not come from a data sheet, but is assumed or fitted.
          With `fixed_by_source`, a change of any parameter suffices.

        Args:
            drive: The entry of the drive. It is not changed.

        Returns:
            A copy of the entry, with the changed parameters under ``set`` and another ``model_digest``. None if the
            drive is not simulated or does not have the mechanism.

        Raises:
            AblationError: A value is invalid, or `fixed_by_source` is set and a changed parameter does not come from a
                data sheet.
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
            not_stated = [name for name in changed if model.sources[name][0] != "datasheet"]
            if not_stated and self.fixed_by_source:
                raise AblationError(
                    f"{self.place}: fixed_by_source: the parameter {not_stated[0]} of {drive['model']} is"
                    f" {model.sources[not_stated[0]][0]}, and not from a data sheet. Remove the key."
                )
            if not (changed if self.fixed_by_source else not_stated):
                return None
            digest = present.replaced(changed).digest
        except TwinError as error:
            raise AblationError(str(error)) from None
        values = {name: models.format_value(name, value) for name, value in changed.items()}
        return {**drive, "set": {**drive.get("set", {}), **values}, "model_digest": digest}


def simulated_drives_only(conf: config.Config) -> config.Config:
    """Return a copy of a configuration without the drives that are not simulated."""
    drives = {name: entry for name, entry in conf.drives.items() if kinds.is_simulated(entry)}
    return dataclasses.replace(conf, drives=drives)


def load_mechanisms(conf: config.Config) -> list[Mechanism]:
    """Return the mechanisms that config/ablations.yaml and studies declare.

    A mechanism is something that a simulated drive, the kernel or its file system does, such as read-ahead, and that
    can be switched off. The mechanisms of config/ablations.yaml come first.

    Args:
        conf: The configuration. Its studies are those that config/config.yaml names.

    Raises:
        ConfigError: A file is invalid.
        AblationError: A declaration names a model, parameter, drive or trace that does not exist. Or a study declares a
            name of config/ablations.yaml again, or that file declares traces.
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
                f"{mechanism.place}: traces: each trace belongs to a study. Declare the mechanism under `mechanisms` in"
                f" {study_files.GRID.format(study='<study>')}."
            )
        if mechanism.study is not None and mechanism.name in content["mechanisms"]:
            raise AblationError(
                f"{mechanism.place}: {MECHANISMS_FILE} has a mechanism of this name. Choose another name."
            )
        for model in (model for model in mechanism.models if model not in shipped):
            near = yaml_schema.did_you_mean(model, shipped)
            raise AblationError(f"{mechanism.place}: models: there is no model '{printable(model)}'.{near}")
        for name in (name for switch in mechanism.switches for name in switch):
            if name not in known:
                near = yaml_schema.did_you_mean(name, known)
                raise AblationError(f"{mechanism.place}: twins have no parameter '{printable(name)}'.{near}")
    _check_traces(conf, found)
    return found


def _mechanism(name: str, study: str | None, body: Mapping[str, Any]) -> Mechanism:
    more = {key: body[key] for key in ("models", "traces", "drive", "fixed_by_source") if key in body}
    assumed = "assumed" in body or "chosen_for" in body
    return Mechanism(name, body["says"], study, body.get("set", ()), assumed=assumed, **more)


def _check_traces(conf: config.Config, declared: Sequence[Mechanism]) -> None:
    """Raise AblationError if the drive or a trace of a mechanism cannot be used.

    The drive must be simulated. The mechanism's study must replay each trace to replace, and each replacing trace must
    exist.
    """
    replayed = config.replayed_traces(conf)
    entries = drive_entries.read_drive_entries(conf.root).entries if any(each.drive for each in declared) else {}
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
                existing = (str(Path(trace).with_name(path.name)) for path in folder.glob("*.parquet"))
                near = yaml_schema.did_you_mean(other, existing)
                raise AblationError(f"{mechanism.place}: traces: there is no file '{printable(other)}'.{near}")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as for a path that is too long
        return False


def ablation_runs(conf: config.Config) -> list[str]:
    """Return the names of the runs of an ablation.

    In each run, one mechanism is switched off: something that a simulated drive, the kernel or its file system does,
    such as read-ahead. In one more run, `BASELINE_RUN`, nothing is switched off.

    Args:
        conf: The configuration.

    Returns:
        A list such as ``["nothing", "read-ahead"]``: `BASELINE_RUN`, and the `Mechanism.slug` of each mechanism.

    Raises:
        ConfigError: A file is invalid.
        AblationError: A mechanism is invalid.
    """
    return [BASELINE_RUN, *(each.slug for each in load_mechanisms(conf))]


def studies_with_claims(conf: config.Config) -> list[str]:
    """Return the names of the configured studies that have claims.

    A claim is a published statement that is checked. The claims of a study are in data/published/<study>/claims.yaml.
    """
    return [study for study in conf.studies if claims_if_any(conf.root, study)]


def claims_if_any(root: Path, study: str) -> list[dict[str, Any]]:
    """Return the claims of a study, as in data/published/<study>/claims.yaml.

    A claim is a published statement that is checked. The list is empty if the file has no claims or does not exist.

    Args:
        root: The project's folder.
        study: The name of the study.

    Returns:
        A mapping for each claim. Its key ``id`` is the name of the claim, and ``check`` or ``checks`` says how the
        claim is checked.

    Raises:
        ConfigError: The file is not valid YAML.
    """
    if not (root / _claims_file(study)).exists():
        return []
    found: list[dict[str, Any]] = yaml_schema.read_yaml(root, _claims_file(study)).get("claims", [])
    return found


def _claims_file(study: str) -> str:
    return f"{study_files.PUBLISHED_PLACE.format(study=study)}/claims.yaml"


def cells_used_by_claims(conf: config.Config, study: str) -> list[grid.Cell]:
    """Return the cells of a study that the checks of its claims use.

    A claim is a published statement. Its checks name experiments of the study. A cell is one configuration: a drive,
    its settings and a workload. The result has all cells of these experiments, in the order of `grid.expand_grid`.

    Args:
        conf: The configuration.
        study: The name of the study.
    """

    def named(content: Any) -> Iterator[str]:
        if isinstance(content, dict):
            if isinstance(content.get("experiment"), str):
                yield content["experiment"]
            content = list(content.values())
        if isinstance(content, list):
            for each in content:
                yield from named(each)

    checks = [[claim.get("check"), claim.get("checks")] for claim in claims_if_any(conf.root, study)]
    experiments = set(named(checks))
    return [cell for cell in grid.expand_grid(conf, study) if experiments & set(cell.experiments)]


def record_ablation(root: Path, overrides: Mapping[str, Any], measured: Path) -> str:
    """Judge the claims for all runs of an ablation, and write the ablation records.

    In each run of an ablation, one mechanism of a simulated drive, the kernel or its file system was switched off. A
    claim (a published statement that is checked) depends on the mechanism if it is reproduced either only with or only
    without the mechanism. A record, data/ablation/<study>.yaml, is written for each configured study with claims.

    Args:
        root: The project's folder.
        overrides: Values that replace top-level keys of config/config.yaml: ``{"runtime": "1 s"}``; empty for none.
        measured: The folder with the measurements, results/ablation. It has a folder for each run, which
            `ablation_runs.measure_without_mechanism` filled.

    Returns:
        Text for a terminal. It has a line for each claim whose outcome changes, with the mechanisms that change it, and
        a line for each written record.

    Raises:
        AblationError: A mechanism is invalid.
        ConfigError: The configuration is invalid.
        OSError: The measurements of a run are missing.
    """
    conf = config.load_config(root, overrides)
    declared = load_mechanisms(conf)
    configurations = [(mechanism, mechanism.switched_off_in(conf)) for mechanism in declared]
    lines, written = [], []
    for study in studies_with_claims(conf):
        before = _outcomes(root, study, [measured / BASELINE_RUN])
        tried: dict[str, list[str]] = {}
        flips: dict[str, list[str]] = {}
        for mechanism, off in configurations:
            drives = [cell.drive for cell in cells_used_by_claims(off, study)] if mechanism.applies_to(study) else []
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
            "made_from": input_checksums(conf, study, declared),
            "mechanisms": tried,
            "flips": flips,
        }
        written.append(committed_records.ABLATION_RECORDS.write(root, study, _HEAD, content))
    return "\n".join([*lines, *written])


def _outcomes(root: Path, study: str, folders: Sequence[Path]) -> dict[str, bool]:
    """Return whether each claim of a study is reproduced, by claim id.

    Args:
        root: The project's folder.
        study: The name of the study.
        folders: The folders of runs, with <study>.parquet and <study>.tuning.json. A drive's measurements are taken
            from the first folder that has any of this drive.
    """
    import pandas as pd

    from iopatterns.analysis import quantities
    from iopatterns.workflow.claim_outcomes import StudyClaims

    tables, steps = [], []
    known: set[str] = set()
    for folder in folders:
        table = quantities.read_executions(folder / f"{study}.parquet")
        tuned = tuning_steps.read_tuning_records(folder / f"{study}.tuning.json")
        tables.append(table[~table["drive"].isin(known)])
        steps += [step for step in tuned if step["drive"] not in known]
        known |= {*table["drive"], *(step["drive"] for step in tuned)}
    claims = StudyClaims.load(root, study, claims_if_any(root, study))
    outcomes = claims.outcomes(pd.concat(tables, ignore_index=True), steps)
    return {name: outcome.reproduced for name, outcome in outcomes.items()}


def _traces(conf: config.Config, study: str, declared: Sequence[Mechanism]) -> list[str]:
    """Return the existing trace files that an ablation of a study replays.

    These are the traces that the study replays, and the traces that replace them when a mechanism is switched off.

    Args:
        conf: The configuration.
        study: The name of the study.
        declared: All mechanisms.
    """
    replayed = config.replayed_traces(conf)[study]
    of_study = (mechanism for mechanism in declared if mechanism.applies_to(study))
    others = {mechanism.traces[trace] for mechanism in of_study for trace in replayed & mechanism.traces.keys()}
    return sorted(path for path in replayed | others if _is_file(conf.root / path))


def ablation_trace_files(conf: config.Config) -> list[str]:
    """Return the trace files that an ablation of the configured studies replays.

    A trace lists requests to a drive. The result includes the traces that replace others when a mechanism is switched
    off. Files that do not exist are left out.

    Args:
        conf: The configuration.

    Returns:
        Sorted paths, relative to the project's folder.
    """
    declared = load_mechanisms(conf)
    return sorted({trace for study in studies_with_claims(conf) for trace in _traces(conf, study, declared)})


def ablation_input_files(conf: config.Config) -> list[str]:
    """Return the files that the result of `load_ablation_records` depends on.

    These files are the ablation records (data/ablation/<study>.yaml), the files that declare mechanisms, and the
    replayed traces. The list is empty if there is no record.

    Args:
        conf: The configuration.

    Returns:
        Paths, relative to the project's folder.
    """
    records = [committed_records.ABLATION_RECORDS.file(study) for study in studies_with_claims(conf)]
    existing = [file for file in records if (conf.root / file).exists()]
    if not existing:
        return []
    declared = dict.fromkeys([MECHANISMS_FILE, *(mechanism.file for mechanism in load_mechanisms(conf))])
    return [*declared, *existing, *ablation_trace_files(conf)]


def input_checksums(conf: config.Config, study: str, declared: Sequence[Mechanism] | None) -> dict[str, str]:
    """Return checksums of everything that the outcomes of a study's claims depend on.

    The keys are paths, ``drive NAME`` for a drive with changed parameters, and ``traces`` for all traces together. The
    checksum of a model covers its parameters. The checksum of another file covers its parsed content. An ablation
    record contains these checksums, so that a change shows that the record is stale.

    Args:
        conf: The configuration.
        study: The name of the study.
        declared: All mechanisms. None if no mechanism is switched off.
    """
    ablated, declared = declared is not None, declared or []
    experiments = conf.studies[study]["experiments"]
    named = {drive for experiment in experiments for drive in grid.drives_of_experiment(conf, study, experiment)}
    drives = {name: conf.drives[name] for name in conf.drives if name in named}
    if others := {each.drive for each in declared if each.drive is not None and each.applies_to(study)}:
        known = drive_entries.read_drive_entries(conf.root)
        drives |= {name: known.resolved(name) for name in sorted(others)}
    sums = committed_records.drive_checksums(drives) | {
        file: committed_records.checksum(yaml_schema.read_yaml(conf.root, file))
        for file in (*([MECHANISMS_FILE] if ablated else []), study_files.GRID.format(study=study))
    }
    # only the checks of a claim determine its outcome
    checks = {claim["id"]: [claim.get("check"), claim.get("checks")] for claim in claims_if_any(conf.root, study)}
    sums[_claims_file(study)] = committed_records.checksum(checks)
    sums |= committed_records.trace_checksums(conf.root, _traces(conf, study, declared))
    return {**sums, **committed_records.settings_checksum(conf)}


def load_ablation_records(root: Path, overrides: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """Return the content of the ablation records, by study.

    An ablation record, the committed file data/ablation/<study>.yaml, says which claims depend on which mechanisms. A
    claim is a published statement that is checked. A mechanism is something that a simulated drive, the kernel or its
    file system does, such as read-ahead. Studies without a record are left out.

    Args:
        root: The project's folder.
        overrides: Values that replace top-level keys of config/config.yaml: ``{"runtime": "1 s"}``; None for none.

    Returns:
        For each study, a mapping with these keys:

        - ``mechanisms``: the mechanisms that were switched off. Each is a mapping with ``name``, ``says`` (the
          description) and ``by`` (`Mechanism.kind`).
        - ``flips``: a mapping of claim ids to lists of mechanism names. The outcome of the claim changes if one of
          these mechanisms is switched off.
        - ``stale``: the sorted names of the inputs, such as files and drives, that have changed since the record was
          made. Empty if the record is current.

    Raises:
        AblationError: A mechanism is invalid.
        RecordError: A record is invalid.
        ConfigError: The configuration is invalid.
    """
    conf = config.load_config(root, overrides)
    declared = load_mechanisms(conf)
    found = {}
    for study in studies_with_claims(conf):
        content = committed_records.ABLATION_RECORDS.read(root, study)
        if content is None:
            continue
        present = [
            {"name": each.name, "says": each.description, "by": each.kind}
            for each in declared
            if each.applies_to(study) and each.name in content["mechanisms"]
        ]
        stale = committed_records.stale_inputs(content, input_checksums(conf, study, declared))
        found[study] = {"mechanisms": present, "flips": content["flips"], "stale": stale}
    return found
