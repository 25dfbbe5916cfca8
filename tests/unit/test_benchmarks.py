"""The runner of the benchmarks: which there are, what it writes of them, and what it does with one that fails."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support import ROOT, script


@pytest.fixture
def runner() -> ModuleType:
    return script(ROOT / "tests/benchmarks/run.py")


def test_all_programs_of_the_folder_are_benchmarks_and_say_what_they_are_about(runner: ModuleType) -> None:
    assert len(runner.benchmarks([])) > 4
    assert [path.name for path in runner.benchmarks(["twin"])] == ["bench_twin.py"]
    for path in runner.benchmarks([]):
        assert len(runner.title(path)) > 20


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [("traces", "--requests", "1000"), ("calls", "--lines", "1000"), ("fio_parser_json", "--files", "3")]
)
def test_those_that_can_be_made_small_run_to_their_end(name: tuple[str, ...]) -> None:
    program, *small = name
    path = ROOT / f"tests/benchmarks/bench_{program}.py"
    done = subprocess.run([sys.executable, path, *small], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_figures_go_to_json_and_to_a_page(
    runner: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bench_toy.py").write_text('"""How fast a toy is."""\nprint("toy: 2.0 x another toy")\n')
    found, page = tmp_path / "results/benchmarks.json", tmp_path / "benchmarks.md"
    monkeypatch.setattr(runner, "FOLDER", tmp_path)
    monkeypatch.setattr("sys.argv", ["run.py", "--json", str(found), "--page", str(page)])
    runner.main()
    assert "  toy: 2.0 x another toy\n" in capsys.readouterr().out
    (told,) = json.loads(found.read_text())["benchmarks"]
    assert told == {"program": "bench_toy.py", "title": "How fast a toy is", "figures": ["toy: 2.0 x another toy"]}
    assert "## How fast a toy is\n" in page.read_text()
    assert "\ntoy: 2.0 x another toy\n" in page.read_text()


def test_a_benchmark_that_fails_is_named_the_others_run_and_no_page_is_written(
    runner: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bench_toy.py").write_text('"""How fast a toy is."""\nraise SystemExit(3)\n')
    (tmp_path / "bench_wheel.py").write_text('"""How fast a wheel is."""\nprint("as fast as another")\n')
    page = tmp_path / "benchmarks.md"
    monkeypatch.setattr(runner, "FOLDER", tmp_path)
    monkeypatch.setattr("sys.argv", ["run.py", "--json", str(tmp_path / "found.json"), "--page", str(page)])
    with pytest.raises(SystemExit, match=r"bench_toy.py: failed with exit status 3"):
        runner.main()
    assert [each["program"] for each in json.loads((tmp_path / "found.json").read_text())["benchmarks"]] == [
        "bench_wheel.py"
    ]
    assert not page.exists()


def test_one_benchmark_alone_leaves_the_figures_of_the_others(
    runner: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, page = tmp_path / "found.json", tmp_path / "benchmarks.md"
    for name, figure in (("toy", 2), ("wheel", 3)):
        (tmp_path / f"bench_{name}.py").write_text(f'"""How fast a {name} is."""\nprint("{figure} x another")\n')
    monkeypatch.setattr(runner, "FOLDER", tmp_path)
    monkeypatch.setattr("sys.argv", ["run.py", "--json", str(found), "--page", str(page)])
    runner.main()
    (tmp_path / "bench_toy.py").write_text('"""How fast a toy is."""\nprint("4 x another")\n')
    monkeypatch.setattr("sys.argv", ["run.py", "--json", str(found), "--page", str(page), "toy"])
    runner.main()
    assert [each["figures"] for each in json.loads(found.read_text())["benchmarks"]] == [
        ["4 x another"],
        ["3 x another"],
    ]
    assert page.read_text().index("4 x another") < page.read_text().index("3 x another")
    told = json.loads(found.read_text())
    found.write_text(json.dumps({**told, "fio_version": "fio-3.1"}))
    runner.main()
    assert [each["figures"] for each in json.loads(found.read_text())["benchmarks"]] == [["4 x another"]]
