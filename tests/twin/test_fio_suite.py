"""The benchmark that runs fio's own tests on a simulated drive: its counts, and the reasons of failures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

SUITE = ROOT / "tests/benchmarks/fio_suite.py"
# A script like the tests of fio: writes a file, verifies it from another folder, and uses unsupported engines
SCRIPT = """
import subprocess, sys
from pathlib import Path
fio, root = sys.argv[2], Path(sys.argv[4]).absolute()
def case(number, folder, *options):
    (root / folder).mkdir(parents=True, exist_ok=True)
    words = [fio, "--name=a", "--filesize=1M", "--bs=4k", "--verify=md5", "--fallocate=truncate", *options]
    done = subprocess.run(words, cwd=root / folder, capture_output=True)
    print("Test", number, "PASSED" if done.returncode == 0 else f"FAILED: status {done.returncode}")
case(1, "one", "--rw=write", "--ioengine=psync")
case(2, "two", "--rw=read", "--ioengine=psync", "--verify_only", f"--directory={root / 'one'}")
case(3, "three", "--rw=write", "--ioengine=mmap")
case(4, "four", "--rw=write", "--ioengine=none-such")
print("Test 5 SKIPPED")
"""


def suite(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SUITE), *words], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_passed_cases_are_counted_and_failures_have_reasons(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t/fiotestlib.py").touch()
    (tmp_path / "t/sequence.py").write_text(SCRIPT)
    fio = subprocess.run(["which", "fio"], capture_output=True, text=True, check=True).stdout.strip()
    done = suite(str(tmp_path), "--fio", fio, "--output", str(tmp_path / "suite.json"))
    assert done.returncode == 0, done.stderr
    content = json.loads((tmp_path / "suite.json").read_text())
    assert list(content["scripts"]) == ["sequence.py"]  # this tree has no other script
    found = content["scripts"]["sequence.py"]
    assert (found["cases"], found["passed"]) == (4, 2)
    mmap, none_such = sorted(found["not passed"])[::-1]
    assert "mmap" in mmap
    assert none_such == "fails with fio alone, too"


def test_without_a_source_tree_the_message_shows_how_to_give_one(tmp_path: Path) -> None:
    for words in ([], [str(tmp_path)]):
        done = suite(*words)
        assert done.returncode == 1
        assert "snakemake --cores 1 fio-suite --config fio_source=" in done.stderr
