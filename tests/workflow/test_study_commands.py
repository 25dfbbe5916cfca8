"""The commands `iopatterns study`: a removed study can be added again with the same bytes."""

import fcntl
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from support import FIXTURE_GRID, ROOT, Project, copy_project

from iopatterns.base import files
from iopatterns.base.errors import OutputError
from iopatterns.cli import iopatterns_command
from iopatterns.configuration import config, study_files
from iopatterns.workflow import study_package
from iopatterns.workflow.run_start import RunLockError
from iopatterns.workflow.study_package import StudyError


def contents(root: Path) -> dict[str, bytes]:
    """Return the content of each file of a project, without code, results and Snakemake's files."""
    excluded = {"src", ".snakemake", "results"}
    places = {path.relative_to(root): path for path in sorted(root.rglob("*")) if path.is_file()}
    return {
        str(place): path.read_bytes()
        for place, path in places.items()
        if place.parts[0] not in excluded and "__pycache__" not in place.parts
    }


def lay_out(root: Path) -> Project:
    project = copy_project(root)
    shutil.copy(ROOT / "config/config.yaml", root / "config/config.yaml")
    for folder in ("data/ablation", "data/manifests", "data/scale", "tests/studies"):
        if (ROOT / folder).exists():
            shutil.copytree(ROOT / folder, root / folder)
    return project


# ---- The round trip


@pytest.mark.slow
@pytest.mark.parametrize("study", study_files.study_names(ROOT)[-2:])
def test_a_removed_study_is_added_with_the_same_bytes(study: str, tmp_path: Path) -> None:
    project = lay_out(tmp_path / "project")
    root, package = project.root, tmp_path / "package.tar.xz"
    before = contents(root)
    for arguments in (["pack", study, "--output", str(package)], ["remove", study, "--yes"]):
        done = project.iopatterns("study", *arguments)
        assert done.returncode == 0, done.stdout
    assert study_files.files_of_study(root, study) == []
    assert list(study_files.existing_places(root, study)) == []
    assert study not in config.load_config(root).studies
    planned = project.snakemake("-n")
    assert planned.returncode == 0, planned.stdout
    assert f"notebooks/{study}" not in planned.stdout
    done = project.iopatterns("study", "add", str(package), "--yes")
    assert done.returncode == 0, done.stdout
    assert contents(root) == before


@pytest.mark.slow
def test_the_same_study_gives_the_same_package(tmp_path: Path) -> None:
    sums = []
    for name in ("one", "two"):
        root = lay_out(tmp_path / name).root
        (root / "notebooks/tiny.py").touch()
        (root / "notebooks/tiny.ipynb").chmod(0o600)
        sums.append(study_package.pack_study(root, "tiny", tmp_path / f"{name}.tar.xz").sha256)
    assert sums[0] == sums[1]


# ---- A small project

GRID = """\
title: A study of a drive
twins: {{quick: {{model: {model}}}}}
drives: [quick, {drive}]
fio: {{ioengine: libaio, direct: 1}}
experiments: {{one: {{vary: {{rw: [read], bs: [4k]}}}}}}
"""
CONFIG = """\
# Which studies, with a comment — and a dash
studies: [first, mine,  # why it is here
          last]
drives: [twins]
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with three studies. The study `mine` has a file at each place, and its own model."""
    root = tmp_path / "small"
    for study, model, drive in (("first", "shared", "a"), ("mine", "own", "shared"), ("last", "shared", "b")):
        write(root / f"config/studies/{study}.yaml", GRID.format(model=model, drive=drive))
    for model in ("own", "shared", "of-user", "unused"):
        write(root / f"data/twins/{model}.yaml", model)
    write(root / "config/drives.yaml", "x: {kind: twin, model: of-user}\n")
    write(root / "config/config.yaml", CONFIG)
    write(root / "paper/references.yml", "mine:\n  type: misc\n\ncited:\n  type: misc\n\nother:\n  type: misc\n")
    write(root / "paper/studies/mine.typ", "As in @cited.")
    for place in (
        "notebooks/mine.ipynb",
        "notebooks/mine.py",
        "data/ablation/mine.yaml",
        "data/scale/mine.yaml",
        "data/manifests/3.39/mine.sha256",
    ):
        write(root / place, place)
    for place in study_files.FOLDERS:
        write(root / place.format(study="mine") / "deep/file", place)
        write(root / place.format(study="mine") / "__pycache__/file", place)
    (root / "data/traces/mine/deep/file").chmod(0o755)
    monkeypatch.chdir(root)
    return root


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def run(*arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(iopatterns_command, ["study", *arguments], input=answer)


def refused(*arguments: str) -> str:
    done = run(*arguments)
    assert isinstance(done.exception, (StudyError, OutputError, RunLockError))
    return str(done.exception)


def packed_and_removed(root: Path, *arguments: str) -> Path:
    """Pack `mine` and remove it; return the package."""
    package = root.parent / "mine.tar.xz"
    study_package.pack_study(root, "mine", package)
    assert run("remove", "mine", "--yes", *arguments).exit_code == 0
    return package


def test_files_at_all_places_and_the_own_model_are_removed_and_added(root: Path) -> None:
    before = contents(root)
    package = packed_and_removed(root)
    removed = before.keys() - contents(root).keys()
    assert {str(path) for path in removed} == {
        "config/studies/mine.yaml",
        "data/ablation/mine.yaml",
        "data/scale/mine.yaml",
        "data/manifests/3.39/mine.sha256",
        "data/published/mine/deep/file",
        "data/traces/mine/deep/file",
        "data/twins/own.yaml",
        "data/workloads/mine/deep/file",
        "notebooks/mine.ipynb",
        "notebooks/mine.py",
        "paper/studies/mine.typ",
        "tests/studies/mine/deep/file",
    }
    assert run("add", str(package), "--yes").exit_code == 0
    after = contents(root)
    text = after.pop("config/config.yaml").decode()
    assert yaml.safe_load(text)["studies"] == ["first", "mine", "last"]
    assert text.startswith("# Which studies, with a comment — and a dash\n")
    before.pop("config/config.yaml")
    assert after == before
    assert (root / "data/traces/mine/deep/file").stat().st_mode & 0o111
    assert not (root / "notebooks/mine.py").stat().st_mode & 0o111


def test_a_model_of_a_user_s_drive_is_packed_and_not_removed(root: Path) -> None:
    write(root / "config/drives.yaml", "x: {kind: twin, model: own}\n")
    package = packed_and_removed(root)
    assert (root / "data/twins/own.yaml").exists()
    assert "data/twins/own.yaml" in study_package.StudyPackage.open(package).sums


def test_only_missing_references_are_added(root: Path) -> None:
    package = packed_and_removed(root)
    write(root / "paper/references.yml", "other:\n  type: misc\ncited:\n  type: book\n")
    assert run("add", str(package), "--yes").exit_code == 0
    found = yaml.safe_load((root / "paper/references.yml").read_text())
    assert found == {"other": {"type": "misc"}, "cited": {"type": "book"}, "mine": {"type": "misc"}}


# ---- Pack


def test_a_link_is_not_packed(root: Path) -> None:
    (root / "data/traces/mine/link").symlink_to("/etc/passwd")
    assert "data/traces/mine/link: a package cannot contain a link" in refused("pack", "mine")
    assert not (root / "mine.tar.xz").exists()


def test_an_unknown_study_is_refused_and_only_a_package_of_the_study_overwritten(root: Path) -> None:
    assert "no study 'mien'. Did you mean 'mine'? Studies: first, last, mine." in refused("pack", "mien")
    write(root / "mine.tar.xz", "my own")
    assert "mine.tar.xz: the file exists" in refused("pack", "mine")
    (root / "mine.tar.xz").unlink()
    assert run("pack", "mine").exit_code == run("pack", "mine").exit_code == 0
    assert "add --overwrite" in refused("pack", "first", "--output", "mine.tar.xz")


def test_raw_files_of_simulated_drives_are_packed_on_request(root: Path) -> None:
    for drive, kind in (("c400", "twin"), ("disk", "block")):
        write(root / f"data/raw/{drive}/mine/cell/01.json", "{}")
        write(
            root / f"data/raw/{drive}/mine/cell/01.sidecar.json",
            f'{{"specification": {{"drive": {{"kind": "{kind}"}}}}}}',
        )
    plain, done = study_package.pack_study(root, "mine", Path("a.tar.xz")), run("pack", "mine", "--with-raw")
    assert "Raw files of the real drive disk are not included" in done.output
    more = study_package.StudyPackage.open(Path("mine.tar.xz")).sums.keys() - set(plain.paths)
    assert more == {"data/raw/c400/mine/cell/01.json", "data/raw/c400/mine/cell/01.sidecar.json"}


# ---- Add


def test_the_changes_of_adding_are_shown_and_nothing_is_overwritten(root: Path) -> None:
    package = packed_and_removed(root)
    before = contents(root)
    shown = run("add", str(package), answer="n\n")
    assert shown.exit_code == 1
    for line in ("study 'mine', A study of a drive", "  data/twins/own.yaml", "studies: mine", "A study contains code"):
        assert line in shown.output
    assert contents(root) == before
    write(root / "notebooks/mine.py", "my own")
    write(root / "data/traces/mine", "a file with the path of a folder")
    (root / "data/twins/own.yaml").symlink_to("unused.yaml")
    before = contents(root)
    message = refused("add", str(package), "--yes").splitlines()
    assert "nothing was written" in message[0]
    assert message[1:] == ["data/traces/mine", "data/twins/own.yaml", "notebooks/mine.py"]
    assert contents(root) == before


def test_a_complete_study_is_not_added_again(root: Path) -> None:
    study_package.pack_study(root, "mine", root / "mine.tar.xz")
    before = contents(root)
    done = run("add", "mine.tar.xz")
    assert done.exit_code == 0
    assert "The project contains all of this already." in done.output
    assert contents(root) == before


@pytest.mark.parametrize("broken", ["config/config.yaml", "tests/studies/mine/deep/file"])
def test_nothing_is_written_if_one_write_fails(root: Path, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package = packed_and_removed(root)
    write(root / "paper/references.yml", "")
    before = contents(root)
    monkeypatch.setattr(files, "write_text", failing_at(broken, files.write_text))
    monkeypatch.setattr(study_package.Addition, "_write_new", failing_at(broken, study_package.Addition._write_new))
    done = run("add", str(package), "--yes")
    assert isinstance(done.exception, OSError)
    assert contents(root) == before
    assert not (root / "data/traces/mine").exists()


def failing_at(broken: str, do: Callable[..., None]) -> Callable[..., None]:
    """Return a wrapper that fails once, when one of its arguments is the broken file."""
    failed: list[str] = []

    def does(*arguments: object) -> None:
        if not failed and any(str(argument).endswith(broken) for argument in arguments):
            failed.append(broken)
            raise OSError(28, "No space left on device")
        do(*arguments)

    return does


# ---- Remove


def test_only_results_and_raw_files_of_the_study_are_removed(root: Path) -> None:
    removed = [
        "results/tables/mine/a.csv",
        "results/numbers/mine.json",
        "results/measurements/mine.tuning.json",
        "results/logs/collect/mine.log",
        "results/logs/measure/c400/measure_mine_1.log",
        "results/quick/tables/mine/a.csv",
        "results/quick/scorecard.json",
        "results/report.pdf",
        "data/raw/c400/mine/cell/01.json",
    ]
    kept = [
        "results/tables/mine2/a.csv",
        "results/numbers/mine-2.json",
        "results/logs/measure/c400/measure_mine_2_1.log",
        "data/raw/disk/mine2/cell/01.json",
        "results/tables/other/mine.csv",
        "results/mine2/report.pdf",
    ]
    for file in (*removed, *kept):
        write(root / file, file)
    shown = run("remove", "mine", answer="n\n")
    assert all((root / file).exists() for file in (*removed, *kept, "notebooks/mine.py"))
    for place in ("results/tables/mine", "data/raw/c400/mine", "data/twins/own.yaml", "config/studies/mine.yaml"):
        assert f"  {place}\n" in shown.output
    assert "data/raw" not in run("remove", "mine", "--keep-raw", answer="n\n").output
    assert run("remove", "mine", "--yes").exit_code == 0
    assert not any((root / file).exists() for file in removed)
    assert all((root / file).exists() for file in kept)
    assert not (root / "data/raw/c400").exists()


def test_a_link_is_removed_without_its_target(root: Path) -> None:
    write(root.parent / "elsewhere/file", "precious")
    shutil.rmtree(root / "data/traces/mine")
    (root / "data/traces/mine").symlink_to(root.parent / "elsewhere")
    (root / "data/published/mine/link").symlink_to(root.parent / "elsewhere")
    assert run("remove", "mine", "--yes").exit_code == 0
    assert (root.parent / "elsewhere/file").read_text() == "precious"
    assert not (root / "data/traces/mine").is_symlink()


def test_nothing_is_removed_during_a_run(root: Path) -> None:
    write(root / "data/raw/.run.lock", "4711")
    with open(root / "data/raw/.run.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = contents(root)
        assert refused("remove", "mine", "--yes").startswith("Process 4711 is running this workflow")
        assert contents(root) == before


@pytest.mark.parametrize(
    ("study", "file", "text", "message"),
    [
        (
            "mine",
            "config/studies/last.yaml",
            "experiments: {e: {replay: {trace: 'data/traces/mine/{bs}.parquet'}}}",
            "'mine' cannot be removed: config/studies/last.yaml uses files in data/traces/mine/.",
        ),
        (
            "mine",
            "data/workloads/last/recordings.yaml",
            "recordings: {r: {phases: {run: sh data/workloads/mine/run.sh}}}",
            "'mine' cannot be removed: data/workloads/last/recordings.yaml uses files in data/workloads/mine/.",
        ),
        ("mine", "config/config.yaml", "studies: [mine]\n", "config/config.yaml: studies: 'mine' is the only study."),
        *((name, "other", "", f"'{name}' cannot be the name of a study.") for name in ("*", "../mine", "m?ne", "")),
    ],
)
def test_nothing_is_removed_with_a_needed_study_or_an_invalid_name(
    root: Path, study: str, file: str, text: str, message: str
) -> None:
    write(root / file, text)
    before = contents(root)
    assert refused("remove", study, "--yes").startswith(message)
    assert contents(root) == before


def test_an_interrupted_removal_can_be_repeated(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Path) -> Iterator[None]:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(shutil, "rmtree", interrupted)
        run("remove", "mine", "--yes")
    assert study_files.files_of_study(root, "mine")
    assert run("remove", "mine", "--yes").exit_code == 0
    assert list(study_files.existing_places(root, "mine")) == []
    assert not (root / "data/twins/own.yaml").exists()


# ---- List and check


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return copy_project(tmp_path_factory.mktemp("listed") / "project")


def test_the_list_has_the_extent_and_files_of_each_study(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.root)
    text = run("list").output
    blocks = {block.split(":")[0]: block.splitlines() for block in text.replace("\n  ", "\x00").splitlines()}
    shown = {name: "".join(lines).split("\x00") for name, lines in blocks.items()}
    assert list(shown) == study_files.study_names(project.root)
    assert shown["tiny"][1].startswith("configured, ")
    assert shown["tiny"][2] == FIXTURE_GRID
    assert run("list", "--names").output == "tiny\n"
    others = [name for name in shown if name != "tiny"]
    assert all(shown[name][1].startswith("not configured (config/config.yaml: studies), ") for name in others)


def test_the_check_of_studies_reports_each_mistake(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.root)
    project.edit("config/config.yaml", file_size="1 GiB", runtime="1 s")
    names = study_files.study_names(project.root)
    done = run("check", *names)
    assert done.exit_code == 0, done.output
    assert [line.split(":")[0] for line in done.output.splitlines()] == names
    assert run("new", "mine").exit_code == 0
    assert run("check", "mine").output == "mine: no mistakes found; 4 cells on 1 drive, 2 repetitions each\n"
    grid = project.root / "config/studies/mine.yaml"
    grid.write_text(grid.read_text().replace("libaio", "psync"))
    (project.root / "paper/studies/mine.typ").unlink()
    done = run("check", "mine", "tiny")
    assert done.exit_code == 2
    assert "config/studies/mine.yaml:18: experiments.depth: iodepth 4 has no effect" in done.output
    assert "paper/studies/mine.typ: there is no such file. `iopatterns study new mine` creates one." in done.output
    assert "tiny: no mistakes found" in done.output
    assert run("check", "no").exception is not None
