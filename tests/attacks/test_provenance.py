"""Results follow from the content of their inputs: each change is noticed, whatever the times of the files are."""

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from measurements import rewrite_metadata
from support import Project, copy_project

from iopatterns.analysis import collect
from iopatterns.cli import iopatterns_command
from iopatterns.raw.metadata_files import metadata_path, read_metadata, write_metadata
from iopatterns.workflow import verification

TABLE = "results/measurements/tiny.parquet"
NUMBERS = "results/numbers/tiny.json"
VALUES = "data/published/tiny/values.csv"


@pytest.fixture(scope="module")
def base(module_disk_folder: Path) -> Project:
    """Return a project with a finished report."""
    project = copy_project(module_disk_folder / "base")
    project.edit("config/config.yaml", drives=["c400"], runtime="20 ms", repetitions=3)
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    return project


@pytest.fixture
def finished(base: Project, disk_folder: Path) -> Project:
    """Return a copy of the finished project, with the same times of files."""
    shutil.copytree(base.root, disk_folder / "project", symlinks=True)
    return Project(disk_folder / "project")


def _results(project: Project) -> dict[str, bytes]:
    """Return the content of all results but the executed notebook and the records, which have times and versions."""
    folder = project.root / "results"
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    kept = (path for path in found if path.relative_to(folder).parts[0] not in {"logs", "notebooks", "provenance"})
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


def _change(path: Path, change: Callable[[Path], object]) -> None:
    """Change a file, and give it its old modification time."""
    state = path.stat()
    change(path)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def _multiply_rates(path: Path) -> None:
    table = pd.read_parquet(path)
    table.assign(iops=table["iops"] * 7).to_parquet(path, index=False)


def _change_digit(path: Path) -> None:
    text = path.read_text()
    digit = next(each for each in re.finditer(r"\d", text) if each.start() > len(text) // 2)
    path.write_text(f"{text[: digit.start()]}{(int(digit[0]) + 1) % 10}{text[digit.end() :]}")


def test_nothing_runs_again_after_a_finished_run(finished: Project) -> None:
    assert "Nothing to be done" in finished.snakemake("-n").stdout
    verified = finished.iopatterns("verify")
    assert verified.returncode == 0
    assert re.fullmatch(r"results: all \d+ results follow from \d+ raw files\n", verified.stdout)


@pytest.mark.parametrize(
    ("file", "change"),
    [(TABLE, _multiply_rates), (NUMBERS, _change_digit), ("results/scorecard.json", _change_digit)],
)
def test_a_changed_result_is_made_again(finished: Project, file: str, change: Callable[[Path], object]) -> None:
    before = _results(finished)
    _change(finished.root / file, change)
    assert _results(finished) != before
    verified = finished.iopatterns("verify")
    assert verified.returncode == 1
    assert f"{file}: has changed since it was made" in verified.stdout
    assert f"{file}: has changed since it was made" in finished.snakemake("-n").stdout
    assert finished.snakemake().returncode == 0
    assert _results(finished) == before
    assert finished.iopatterns("verify").returncode == 0
    assert "Nothing to be done" in finished.snakemake("-n").stdout


def test_a_changed_published_value_reaches_the_report(finished: Project) -> None:
    before = _results(finished)
    _change(finished.root / VALUES, lambda path: path.write_text(path.read_text().replace("25.3", "75.9")))
    assert f"{VALUES}: has changed since" in finished.iopatterns("verify").stdout
    done = finished.snakemake()
    assert f"{VALUES}: has changed since" in done.stdout
    assert done.returncode == 0, done.stdout
    assert _results(finished)["scorecard.json"] != before["scorecard.json"]
    assert finished.iopatterns("verify").returncode == 0


def test_a_restored_raw_file_with_valid_metadata_reaches_the_table(finished: Project, base: Project) -> None:
    raws = sorted(finished.root.glob("data/raw/*/tiny/*/01.json"))
    other = raws[0].with_name("02.json")

    def restore(path: Path) -> None:
        rewrite_metadata(path, {"execution": 1}, of=other)
        shutil.copy(other, path)

    _change(raws[0], restore)
    os.utime(metadata_path(raws[0]), ns=(0, metadata_path(other).stat().st_mtime_ns))
    before = _results(finished)
    cell = str(raws[0].parent.relative_to(finished.root))
    assert f"{cell}: raw files or their metadata have changed" in finished.iopatterns("verify").stdout
    done = finished.snakemake()
    assert done.returncode == 0, done.stdout
    assert f"{cell}: raw files or their metadata have changed" in done.stdout
    assert _results(finished)["measurements/tiny.parquet"] != before["measurements/tiny.parquet"]


def test_saved_outputs_of_a_notebook_are_no_change(finished: Project) -> None:
    path = finished.root / "notebooks/tiny.ipynb"
    content = json.loads(path.read_text())
    content["cells"][-1]["execution_count"] = 99
    path.write_text(json.dumps(content))
    assert "Nothing to be done" in finished.snakemake("-n").stdout
    assert finished.iopatterns("verify").returncode == 0


@pytest.mark.parametrize("change", [{"simulator": "0" * 64}, {"fio_version": "fio-1.0"}], ids=repr)
def test_repetitions_of_another_simulator_or_fio_are_measured_again(finished: Project, change: dict[str, str]) -> None:
    before, raws = _results(finished), finished.raw_files()
    for raw in sorted(finished.root.glob("data/raw/*/tiny/*/02.json")):
        rewrite_metadata(raw, change)
    planned = finished.snakemake("-n")
    assert "measured with another simulator or fio" in planned.stdout
    assert finished.snakemake().returncode == 0
    assert finished.raw_files() == raws
    assert _results(finished) == before
    assert "Nothing to be done" in finished.snakemake("-n").stdout


def test_more_repetitions_never_mix_two_simulators(finished: Project) -> None:
    for raw in finished.root.glob("data/raw/*/tiny/*/0?.json"):
        rewrite_metadata(raw, {"simulator": "0" * 64})
    done = finished.snakemake("collect_tiny", "--config", "repetitions=4")
    assert done.returncode == 0, done.stdout
    found = {read_metadata(raw)["simulator"] for raw in finished.root.glob("data/raw/*/tiny/*/0?.json")}
    assert len(found) == 1
    assert "0" * 64 not in found


@pytest.mark.parametrize(
    ("change", "origin"), [({"host": "other"}, "host other"), ({"fio_version": "fio-1.0"}, "fio-1.0")], ids=repr
)
def test_repetitions_of_another_origin_are_left_out_and_named(
    base: Project, tmp_path: Path, change: dict[str, str], origin: str
) -> None:
    cell = sorted(base.root.glob("data/raw/*/tiny/*"))[0]
    folder = tmp_path / "/".join(cell.parts[-3:])
    shutil.copytree(cell, folder)
    raws = sorted(folder.glob("0?.json"))
    rewrite_metadata(raws[1], change)
    metadata = collect.load_metadata(raws)
    selected, doubts = collect.select_by_origin(metadata, average=False)
    assert list(selected) == [raws[0], raws[2]]
    ((doubt, count),) = doubts.items()
    assert count == 1
    assert all(text in doubt for text in (origin, "/".join(cell.parts[-3:]), "left out"))
    everything, doubts = collect.select_by_origin(metadata, average=True)
    assert list(everything) == raws
    assert "averaged with those of" in next(iter(doubts))
    assert collect.study_provenance(selected, doubts)["doubts"] == doubts


def test_metadata_of_earlier_versions_are_of_no_other_origin(base: Project, tmp_path: Path) -> None:
    cell = sorted(base.root.glob("data/raw/*/tiny/*"))[0]
    folder = tmp_path / cell.name
    shutil.copytree(cell, folder)
    raws = sorted(folder.glob("0?.json"))
    content: Any = read_metadata(raws[0])
    for key in ("sha256", "host", "simulator"):
        del content[key]
    write_metadata(raws[0], content)
    selected, doubts = collect.select_by_origin(collect.load_metadata(raws), average=False)
    assert (list(selected), doubts) == (raws, {})


def test_verify_finds_each_of_a_hundred_edits(finished: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(finished.root)
    assert verification.verify("results").problems == []
    chance = random.Random(1)
    results = [path for path in Path("results").rglob("*") if path.is_file() and path.parts[1] != "logs"]
    kinds = [sorted(results), sorted(Path("data/raw").glob("*/*/*/*.json")), [Path(VALUES)]]
    for number in range(100):
        path = chance.choice(chance.choices(kinds, weights=(6, 3, 1))[0])
        content = bytearray(path.read_bytes())
        place = chance.randrange(len(content))
        content[place] ^= 1 << chance.randrange(8)
        original = path.read_bytes()
        _change(path, lambda changed, new=content: changed.write_bytes(new))  # type: ignore[misc]
        problems = verification.verify("results").problems
        assert any(problem.startswith((f"{path}:", f"{path.parent}:")) for problem in problems), (number, path, place)
        path.write_bytes(original)
    assert verification.verify("results").problems == []


def test_verify_names_a_result_without_a_record(finished: Project) -> None:
    (finished.root / "results/tables/tiny/own.csv").write_text("1\n")
    assert "results/tables/tiny/own.csv: no record says how it was made" in finished.iopatterns("verify").stdout


def test_a_number_is_followed_to_the_commands(finished: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(finished.root)
    followed = CliRunner().invoke(iopatterns_command, ["verify", "--follow", NUMBERS])
    assert followed.exit_code == 0, followed.output
    raw = sorted(finished.root.glob("data/raw/*/tiny/*/01.json"))[0]
    for text in (TABLE, "made by the rule collect_tiny", str(raw.parent.relative_to(finished.root)), "twin run"):
        assert text in followed.output
    wrong = CliRunner().invoke(iopatterns_command, ["verify", "--follow", "results/numbers/tin.json"])
    assert wrong.exit_code == 1
