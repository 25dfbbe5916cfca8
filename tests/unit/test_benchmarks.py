"""Run benchmarks, and write their output to JSON and to a page."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from support import ROOT, script


@pytest.fixture
def runner() -> ModuleType:
    return script(ROOT / "tests/benchmarks/run.py")


def test_every_benchmark_of_the_folder_has_a_title(runner: ModuleType) -> None:
    assert len(runner.benchmarks([])) > 4
    assert [path.name for path in runner.benchmarks(["twin"])] == ["bench_twin.py"]
    for path in runner.benchmarks([]):
        assert len(runner.title(path)) > 20


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [("traces", "--requests", "1000"), ("calls", "--lines", "1000"), ("fio_parser_json", "--files", "3")]
)
def test_a_small_run_of_a_benchmark_succeeds(name: tuple[str, ...]) -> None:
    program, *small = name
    path = ROOT / f"tests/benchmarks/bench_{program}.py"
    done = subprocess.run([sys.executable, path, *small], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.fixture
def run(runner: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[str]]]:
    """Return a function that runs the benchmarks in ``tmp_path`` and returns the output lines of each."""
    monkeypatch.setattr(runner, "FOLDER", tmp_path)
    found = tmp_path / "results/benchmarks.json"

    def run_benchmarks(*names: str) -> list[list[str]]:
        monkeypatch.setattr("sys.argv", ["run.py", "--json", str(found), "--page", str(tmp_path / "page.md"), *names])
        try:
            runner.main()
        finally:
            lines = [each["figures"] for each in json.loads(found.read_text())["benchmarks"]]
        return lines

    return run_benchmarks


def write_benchmark(folder: Path, name: str, body: str) -> None:
    (folder / f"bench_{name}.py").write_text(f'"""How fast a {name} is."""\n{body}\n')


def test_output_goes_to_json_and_to_a_page(
    run: Callable[..., list[list[str]]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_benchmark(tmp_path, "toy", "print('toy: 2.0 x another toy')")
    assert run() == [["toy: 2.0 x another toy"]]
    assert "  toy: 2.0 x another toy\n" in capsys.readouterr().out
    (entry,) = json.loads((tmp_path / "results/benchmarks.json").read_text())["benchmarks"]
    assert (entry["program"], entry["title"]) == ("bench_toy.py", "How fast a toy is")
    page = (tmp_path / "page.md").read_text()
    assert "## How fast a toy is\n\n`tests/benchmarks/bench_toy.py`\n\n```text\ntoy: 2.0 x another toy\n```\n" in page


def test_after_a_failure_the_others_run_and_no_page_is_written(
    run: Callable[..., list[list[str]]], tmp_path: Path
) -> None:
    write_benchmark(tmp_path, "toy", "raise SystemExit(3)")
    write_benchmark(tmp_path, "wheel", "print('as fast as another')")
    with pytest.raises(SystemExit, match=r"bench_toy.py: failed with exit status 3"):
        run()
    found = json.loads((tmp_path / "results/benchmarks.json").read_text())
    assert [each["program"] for each in found["benchmarks"]] == ["bench_wheel.py"]
    assert not (tmp_path / "page.md").exists()


def test_one_benchmark_keeps_the_output_of_the_others_on_the_same_machine(
    run: Callable[..., list[list[str]]], tmp_path: Path
) -> None:
    write_benchmark(tmp_path, "toy", "print('2 x another')")
    write_benchmark(tmp_path, "wheel", "print('3 x another')")
    run()
    write_benchmark(tmp_path, "toy", "print('4 x another')")
    assert run("toy") == [["4 x another"], ["3 x another"]]
    path = tmp_path / "results/benchmarks.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "fio_version": "fio-3.1"}))
    assert run("toy") == [["4 x another"]]
