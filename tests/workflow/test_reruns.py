"""What runs again after a change, and what does not, as `snakemake -n` tells."""

import re
import shutil
from pathlib import Path

import pytest
import yaml
from support import Project, copy_project

STUDY = "config/studies/saif2020.yaml"

# Two experiments of two cells each, so that an option can change in one of them alone.
EXPERIMENTS = {
    "one": {"description": "first", "fio": {"thinktime": "10 us"}, "vary": {"rw": ["read", "randread"], "bs": ["4k"]}},
    "two": {"description": "second", "vary": {"rw": ["read", "randread"], "bs": ["28k"]}},
}


@pytest.fixture(scope="module")
def base(module_disk_folder: Path) -> Project:
    """A project that is measured and collected; the tests below copy it, change one thing and ask what would run."""
    project = copy_project(module_disk_folder / "base")
    project.edit("config/config.yaml", runtime="20 ms", repetitions=3)
    project.edit(STUDY, experiments=EXPERIMENTS)
    done = project.snakemake("collect_saif2020")
    assert done.returncode == 0, done.stdout
    return project


@pytest.fixture(params=["same checkout", "fresh clone"])
def measured(request: pytest.FixtureRequest, base: Project, disk_folder: Path) -> Project:
    """The measured project; as a fresh clone it has only the raw files: no Snakemake metadata, new file times."""
    root = disk_folder / "copy"
    # the scratch file is made anew: a copy of one is refused, as any file that the package did not make
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
    return set(re.findall(r"Measuring saif2020 on scratch: (\S+)-[0-9a-f]{8}$", dry.stdout, flags=re.MULTILINE))


def test_without_a_change_nothing_runs(base: Project) -> None:
    assert "Nothing to be done" in base.snakemake("-n", "collect_saif2020").stdout


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
        assert "Nothing to be done" in base.snakemake("-n", "collect_saif2020").stdout
    finally:
        for file, text in before.items():
            (base.root / file).write_text(text)


@pytest.mark.parametrize(
    ("module", "runs"),
    [
        ("raw/tuning_steps.py", True),  # collect -> raw.sidecars -> raw.tuning_steps
        ("base/errors.py", True),
        ("analysis/telling.py", False),  # which notebooks alone rest on
        ("measuring/fio.py", False),
    ],
)
def test_a_changed_module_runs_what_rests_on_it_and_measures_nothing(base: Project, module: str, runs: bool) -> None:
    path = base.root / "src/iopatterns" / module
    before = path.read_text()
    try:
        path.write_text(f"{before}\n# another line\n")
        said = base.snakemake("-n", "collect_saif2020").stdout
    finally:
        path.write_text(before)
    assert ("Collecting the raw files of saif2020" in said) == runs
    assert ("Nothing to be done" in said) != runs
    assert "Measuring" not in said


def test_added_level_runs_exactly_its_cells(measured: Project) -> None:
    vary = {"rw": ["read", "randread"], "bs": ["4k", "16k"]}
    measured.edit(STUDY, experiments={**EXPERIMENTS, "one": {**EXPERIMENTS["one"], "vary": vary}})
    assert would_measure(measured) == {"read-16k-j1-think10us", "randread-16k-j1-think10us"}


def test_changed_fio_option_runs_exactly_the_cells_that_have_it(measured: Project) -> None:
    changed = {**EXPERIMENTS["one"], "fio": {"thinktime": "20 us"}}
    measured.edit(STUDY, experiments={**EXPERIMENTS, "one": changed})
    assert would_measure(measured) == {"read-4k-j1-think20us", "randread-4k-j1-think20us"}


def test_more_repetitions_run_all_cells_and_keep_what_is_measured(measured: Project) -> None:
    measured.edit("config/config.yaml", repetitions=6)
    assert len(would_measure(measured)) == 4
    before = measured.raw_files()
    done = measured.snakemake("collect_saif2020")
    assert done.returncode == 0, done.stdout
    after = measured.raw_files()
    assert len(after) == 2 * len(before)
    assert {name: after[name] for name in before} == before


def test_fewer_repetitions_measure_nothing(base: Project, disk_folder: Path) -> None:
    project = Project(disk_folder / "copy")
    shutil.copytree(base.root, project.root, ignore=shutil.ignore_patterns("scratch.bin*"))
    project.edit(STUDY, repetitions=4)
    assert project.snakemake("collect_saif2020").returncode == 0
    project.edit(STUDY, repetitions=2)
    assert would_measure(project) == set()


# Snakemake is told of the last execution alone, as long as all are there
@pytest.mark.parametrize("execution", ["01", "03"])
def test_deleted_raw_file_is_measured_again(measured: Project, execution: str) -> None:
    cell = next((measured.root / "data/raw").glob("scratch/saif2020/randread-28k-*"))
    before = {path.name: path.read_bytes() for path in cell.glob("*.json")}
    (cell / f"{execution}.json").unlink()
    assert would_measure(measured) == {"randread-28k-j1"}
    targets = ("measure_saif2020", "collect_saif2020")
    done = measured.snakemake(*targets)
    assert done.returncode == 0, done.stdout
    assert "Collecting the raw files" in done.stdout
    assert {path.name for path in cell.glob("*.json")} == before.keys()
    kept = {name for name in before if not name.startswith(f"{execution}.")}
    assert {name: (cell / name).read_bytes() for name in kept} == {name: before[name] for name in kept}
    assert "Nothing to be done" in measured.snakemake("-n", *targets).stdout


@pytest.mark.parametrize("execution", ["01", "03"])
def test_a_raw_file_that_was_changed_is_refused(base: Project, disk_folder: Path, execution: str) -> None:
    project = Project(disk_folder / "copy")
    shutil.copytree(base.root, project.root, ignore=shutil.ignore_patterns("scratch.bin*"))
    assert "Nothing to be done" in project.snakemake("-n", "collect_saif2020").stdout
    changed = next((project.root / "data/raw").glob(f"scratch/saif2020/randread-28k-*/{execution}.json"))
    changed.write_text(f"{changed.read_text()} ")
    refused = project.snakemake("collect_saif2020")
    assert refused.returncode != 0
    assert str(changed.relative_to(project.root)) in refused.stdout
    assert "Measuring" not in refused.stdout


def test_mistake_ends_with_status_2_and_one_message(project: Project) -> None:
    path = project.root / "config/config.yaml"
    path.write_text(path.read_text().replace("repetitions:", "repetition:"))
    wrong = project.snakemake()
    assert wrong.returncode == 2
    said = [line for line in wrong.stdout.splitlines() if not line.startswith("Using workflow specific profile")]
    assert len(said) == 2  # the key that is unknown, and the one that is missing
    assert said[0].startswith("config/config.yaml: ")
    assert "Did you mean 'repetitions'?" in wrong.stdout
    assert not (project.root / "data/raw").exists()
