"""No reader of untrusted files raises an exception that it does not announce.

The corpus has inputs that reach much code, and those that once found a fault. A run without `--nightly` fuzzes for a
minute in total, always with the same seed.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, script

CORPUS = ROOT / "tests/fuzz/corpus"
targets = script(ROOT / "tests/fuzz/targets.py")
TOTAL_S = 60
NIGHTLY_TOTAL_S = 3600
SEED = 20


def inputs(target: str) -> list[Path]:
    return sorted((CORPUS / target).iterdir())


def test_each_target_has_a_corpus() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} == set(targets.TARGETS)


@pytest.mark.parametrize("target", targets.TARGETS)
def test_no_input_of_the_corpus_causes_an_exception(target: str) -> None:
    for path in inputs(target):
        targets.TARGETS[target](path.read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("target", targets.TARGETS)
def test_no_fuzzed_input_causes_an_exception(target: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris has no wheel for this Python or machine")
    total_s = NIGHTLY_TOTAL_S if request.config.getoption("nightly") else TOTAL_S
    found = tmp_path / "found"
    found.mkdir()
    command: list[str | Path] = [
        sys.executable,
        ROOT / "tests/fuzz/fuzz.py",
        target,
        f"-seed={SEED}",
        "-timeout=20",
        "-rss_limit_mb=2048",
    ]
    command += [
        f"-max_total_time={max(1, total_s // len(targets.TARGETS) - 2)}",
        "-verbosity=0",
        found,
        CORPUS / target,
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    faults = [path for path in tmp_path.iterdir() if path.name.startswith(("crash-", "timeout-", "oom-"))]
    texts = [f"{path.name}: {path.read_bytes()[:2000]!r}" for path in faults]
    assert done.returncode == 0, "\n".join([*texts, done.stderr[-4000:]])
