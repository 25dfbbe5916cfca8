"""What runs again after a change, and what does not, as printed by `snakemake -n`."""

import contextlib
import os
import re
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import Project, copy_project

from iopatterns.base import sealed_json
from iopatterns.configuration import config
from iopatterns.workflow import provenance, rule_code, study_rules, twin_models

STUDY = "config/studies/tiny.yaml"

# Two experiments of two cells each, so that an option can change in one of them alone.
EXPERIMENTS = {
    "one": {"description": "first", "fio": {"thinktime": "10 us"}, "vary": {"rw": ["read", "randread"], "bs": ["4k"]}},
    "two": {"description": "second", "vary": {"rw": ["read", "randread"], "bs": ["28k"]}},
}


@pytest.fixture(scope="module")
def base(module_disk_folder: Path) -> Project:
    """Return a measured and collected project, which tests copy and change."""
    project = copy_project(module_disk_folder / "base")
    project.edit("config/config.yaml", runtime="20 ms", repetitions=3)
    project.edit(STUDY, experiments=EXPERIMENTS)
    done = project.snakemake("collect_tiny")
    assert done.returncode == 0, done.stdout
    return project


# The scripts and notebooks of the rules of a default run. Rules that measure depend on the configuration only.
RUNS = {
    "collect_tiny": ["workflow/scripts/collect.py"],
    "analyse_tiny": ["workflow/scripts/analyse.py", "notebooks/tiny.ipynb"],
    "judge": ["workflow/scripts/judge.py"],
    "report": ["workflow/scripts/report.py"],
}


@pytest.fixture(scope="module")
def reported(base: Project, module_disk_folder: Path) -> Project:
    """Return the measured project after a report in Snakemake's records, with placeholders as results."""
    project = Project(module_disk_folder / "reported")
    shutil.copytree(base.root, project.root, ignore=shutil.ignore_patterns("scratch.bin*"))
    conf = config.load_config(project.root)
    results = ["numbers/tiny.json", "scorecard.json", "report.pdf", "colophon.json"]
    for file in [
        *study_rules.table_files(conf, "tiny"),
        *study_rules.figure_files(conf, "tiny"),
        *(f"results/{name}" for name in results),
    ]:
        path = project.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    for rule in RUNS.keys() - {"collect_tiny"}:
        empty: dict[str, Any] = {key: {} for key in ("inputs", "outputs", "raw_files", "versions")}
        sealed_json.write_sealed_json(project.root / provenance.record_path("results", rule), {"rule": rule, **empty})
    done = project.snakemake("--touch")
    assert done.returncode == 0, done.stdout
    assert "Nothing to be done" in project.snakemake("-n").stdout
    return project


@pytest.fixture(scope="module")
def uses(reported: Project) -> list[tuple[str, str]]:
    """Pairs of rules: the second rule uses an output of the first."""
    said = reported.snakemake("--rulegraph").stdout
    names = dict(re.findall(r'(\d+)\[label = "(\w+)"', said))
    return [(names[made], names[using]) for made, using in re.findall(r"(\d+) -> (\d+)", said)]


def would_run(project: Project, *targets: str) -> set[str]:
    """Return the rules that a run would run."""
    dry = project.snakemake("-n", "--verbose", *targets)
    assert dry.returncode == 0, dry.stdout
    return set(re.findall(r"^(\w+) +\d+$", dry.stdout, flags=re.MULTILINE)) - {"total"}


@contextlib.contextmanager
def changed(path: Path) -> Iterator[None]:
    """Append a line to a file while the context lasts."""
    before, times = path.read_text(), path.stat()
    try:
        path.write_text(f"{before}\n# another line\n")
        yield
    finally:
        path.write_text(before)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.fixture(params=["same checkout", "fresh clone"])
def measured(request: pytest.FixtureRequest, base: Project, disk_folder: Path) -> Project:
    """Return the measured project; a fresh clone has raw files with new times, and no records of Snakemake."""
    root = disk_folder / "copy"
    # the scratch file is left out, because the package refuses a copy of its file
    if request.param == "same checkout":
        shutil.copytree(base.root, root, ignore=shutil.ignore_patterns("scratch.bin*"))
    else:
        ignored = shutil.ignore_patterns("scratch.bin*", ".snakemake", "results")
        shutil.copytree(base.root, root, ignore=ignored, copy_function=shutil.copyfile)
    return Project(root)


def would_measure(project: Project) -> set[str]:
    """Return the readable names of the cells that a full run would measure."""
    dry = project.snakemake("-n")
    assert dry.returncode == 0, dry.stdout
    return set(re.findall(r"Measuring tiny on scratch: (\S+)-[0-9a-f]{8}$", dry.stdout, flags=re.MULTILINE))


def test_without_a_change_nothing_is_measured(measured: Project) -> None:
    assert would_measure(measured) == set()


def test_comments_and_descriptions_run_nothing(base: Project) -> None:
    changed = {**EXPERIMENTS, "one": {**EXPERIMENTS["one"], "description": "another"}}
    before = {file: (base.root / file).read_text() for file in (STUDY, "config/config.yaml", "config/drives.yaml")}
    try:
        base.edit(STUDY, experiments=changed)
        drives = yaml.safe_load(before["config/drives.yaml"])
        drives["scratch"]["description"] = "another"
        base.edit("config/drives.yaml", **drives)
        for file in before:
            (base.root / file).write_text("# a comment\n" + (base.root / file).read_text())
        assert "Nothing to be done" in base.snakemake("-n", "collect_tiny").stdout
    finally:
        for file, text in before.items():
            (base.root / file).write_text(text)


@pytest.mark.parametrize(
    ("module", "some_that_run"),
    [
        ("raw/tuning_steps.py", {"collect_tiny", "judge"}),  # collect -> raw.sidecars -> raw.tuning_steps
        ("base/errors.py", RUNS.keys()),
        ("judging/formulas.py", {"judge"}),  # judge -> judging.scorecard -> … -> judging.formulas
        ("analysis/outputs.py", {"analyse_tiny"}),  # only notebooks import it
        ("measuring/cell.py", set()),
    ],
)
def test_a_changed_module_runs_exactly_its_dependants_and_measures_nothing(
    reported: Project, uses: list[tuple[str, str]], module: str, some_that_run: Collection[str]
) -> None:
    source = f"src/iopatterns/{module}"
    dependants = {rule for rule, files in RUNS.items() if source in rule_code.dependencies_of(reported.root, *files)}
    assert dependants >= set(some_that_run)
    expected = dependants
    while more := {using for made, using in uses if made in expected} - expected:
        expected = expected | more
    with changed(reported.root / source):
        assert would_run(reported) == expected


def test_fitting_and_converting_traces_run_again_if_their_code_changes(reported: Project) -> None:
    fits = [f"results/twins/{model}.yaml" for model in twin_models.fitted_models(reported.root)]
    trace = reported.root / "mine.strace"
    trace.write_text('7 1.0 open("/f", O_RDONLY) = 3\n7 1.2 read(3, "", 512) = 512\n')
    converted, own = "results/calls/mine.parquet", ["--config", f"traces={{mine: {{path: {trace}}}}}"]
    for result in (*fits, converted):
        (reported.root / result).parent.mkdir(exist_ok=True)
        (reported.root / result).write_text("{}")
    done = reported.snakemake("--touch", "calibrate", converted, *own)
    assert done.returncode == 0, done.stdout
    for module, runs in {
        "twin/streams.py": {"fit_model"},
        "calls/strace.py": {"convert_trace"},
        "twin/linux.py": set(),
    }.items():
        with changed(reported.root / "src/iopatterns" / module):
            assert would_run(reported, "calibrate", converted, *own) - {"calibrate"} == runs


def test_an_added_level_runs_exactly_its_cells(measured: Project) -> None:
    vary = {"rw": ["read", "randread"], "bs": ["4k", "16k"]}
    measured.edit(STUDY, experiments={**EXPERIMENTS, "one": {**EXPERIMENTS["one"], "vary": vary}})
    assert would_measure(measured) == {"read-16k-j1-think10us", "randread-16k-j1-think10us"}


def test_a_changed_fio_option_runs_exactly_the_cells_with_the_option(measured: Project) -> None:
    changed = {**EXPERIMENTS["one"], "fio": {"thinktime": "20 us"}}
    measured.edit(STUDY, experiments={**EXPERIMENTS, "one": changed})
    assert would_measure(measured) == {"read-4k-j1-think20us", "randread-4k-j1-think20us"}


def test_more_repetitions_run_all_cells_and_fewer_none(measured: Project) -> None:
    measured.edit("config/config.yaml", repetitions=6)
    assert len(would_measure(measured)) == 4
    before = measured.raw_files()
    done = measured.snakemake("collect_tiny")
    assert done.returncode == 0, done.stdout
    after = measured.raw_files()
    assert len(after) == 2 * len(before)
    assert {name: after[name] for name in before} == before
    measured.edit("config/config.yaml", repetitions=3)
    assert would_measure(measured) == set()


# Only the last repetition is declared to Snakemake if all raw files exist
@pytest.mark.parametrize("execution", ["01", "03"])
def test_a_deleted_raw_file_is_measured_again(measured: Project, execution: str) -> None:
    cell = next((measured.root / "data/raw").glob("scratch/tiny/randread-28k-*"))
    before = {path.name: path.read_bytes() for path in cell.glob("*.json")}
    (cell / f"{execution}.json").unlink()
    assert would_measure(measured) == {"randread-28k-j1"}
    targets = ("measure_tiny", "collect_tiny")
    done = measured.snakemake(*targets)
    assert done.returncode == 0, done.stdout
    assert "Collecting the raw files" in done.stdout
    assert {path.name for path in cell.glob("*.json")} == before.keys()
    kept = {name for name in before if not name.startswith(f"{execution}.")}
    assert {name: (cell / name).read_bytes() for name in kept} == {name: before[name] for name in kept}
    assert "Nothing to be done" in measured.snakemake("-n", *targets).stdout


@pytest.mark.parametrize("execution", ["01", "03"])
def test_a_changed_raw_file_is_refused(base: Project, disk_folder: Path, execution: str) -> None:
    project = Project(disk_folder / "copy")
    shutil.copytree(base.root, project.root, ignore=shutil.ignore_patterns("scratch.bin*"))
    assert "Nothing to be done" in project.snakemake("-n", "collect_tiny").stdout
    changed = next((project.root / "data/raw").glob(f"scratch/tiny/randread-28k-*/{execution}.json"))
    changed.write_text(f"{changed.read_text()} ")
    refused = project.snakemake("collect_tiny")
    assert refused.returncode != 0
    assert str(changed.relative_to(project.root)) in refused.stdout
    assert "Measuring" not in refused.stdout


def test_a_mistake_in_the_configuration_ends_with_status_2_and_one_message(project: Project) -> None:
    path = project.root / "config/config.yaml"
    path.write_text(path.read_text().replace("repetitions:", "repetition:"))
    wrong = project.snakemake()
    assert wrong.returncode == 2
    said = [line for line in wrong.stdout.splitlines() if not line.startswith("Using workflow specific profile")]
    assert len(said) == 2  # the unknown key, and the missing key
    assert said[0].startswith("config/config.yaml: ")
    assert "Did you mean 'repetitions'?" in wrong.stdout
    assert not (project.root / "data/raw").exists()
