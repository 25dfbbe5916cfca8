"""No reader of untrusted files raises an exception that it does not announce, or accesses foreign memory.

The corpus has inputs that reach much code, and those that once found a fault. A run without `--nightly` tries the same
inputs each time, which takes about a minute in total: its result does not depend on the speed of the machine.
"""

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import ROOT, script

HERE = ROOT / "tests/fuzz"
CORPUS = HERE / "corpus"
targets = script(HERE / "targets.py")
NATIVE = "scsi"
ALL = (*targets.TARGETS, NATIVE)
RUNS = 3000  # of each target
NIGHTLY_TOTAL_S = 3600
SEED = 20


def test_each_target_has_a_corpus() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} == set(ALL)


@pytest.mark.parametrize("target", targets.TARGETS)
def test_no_input_of_the_corpus_causes_an_exception(target: str) -> None:
    for path in sorted((CORPUS / target).iterdir()):
        targets.TARGETS[target](path.read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("target", targets.TARGETS)
def test_no_fuzzed_input_causes_an_exception(target: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris has no wheel for this Python or machine")
    fuzz([sys.executable, HERE / "fuzz.py", target], target, tmp_path, request)


@pytest.mark.slow
def test_no_fuzzed_command_of_scsi_accesses_foreign_memory(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if shutil.which("clang++") is None:
        pytest.skip("clang is not installed")
    twin = ROOT / "src/twin"
    sources = [HERE / "scsi.cc", *sorted((twin / "scsi").glob("s*.cc")), twin / "scsi/caching_page.cc"]
    sanitizers = ["-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=undefined"]
    command: list[str | Path] = [
        "clang++",
        "-std=c++20",
        "-O1",
        "-g1",
        *sanitizers,
        "-I",
        twin,
        *sources,
        twin / "drive/parameters.cc",
    ]
    built = subprocess.run([*command, "-o", tmp_path / NATIVE], capture_output=True, text=True, check=False)
    if "libclang_rt" in built.stderr:
        pytest.skip("libclang_rt is not installed")
    assert built.returncode == 0, built.stderr
    fuzz([tmp_path / NATIVE], NATIVE, tmp_path, request)


def fuzz(program: Sequence[str | Path], target: str, folder: Path, request: pytest.FixtureRequest) -> None:
    """Fuzz a target from its corpus; require that no input causes a fault."""
    is_nightly = request.config.getoption("nightly")
    found = folder / "found"
    found.mkdir()
    options = [
        f"-max_total_time={NIGHTLY_TOTAL_S // len(ALL)}" if is_nightly else f"-runs={RUNS}",
        f"-seed={SEED}",
        "-timeout=20",
        "-rss_limit_mb=2048",
    ]
    command = [*program, *options, "-verbosity=0", found, CORPUS / target]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    faults = [path for path in folder.iterdir() if path.name.startswith(("crash-", "timeout-", "oom-"))]
    texts = [f"{path.name}: {path.read_bytes()[:2000]!r}" for path in faults]
    assert done.returncode == 0, "\n".join([*texts, done.stderr[-4000:]])
