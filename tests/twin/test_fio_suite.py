"""The benchmark that runs fio's own tests on twins: what it counts, on what drive, and what it says of the rest."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

SUITE = ROOT / "tests/benchmarks/fio_suite.py"
# A script as those of fio's are: it lays out a file, verifies it from another folder, and asks for what no twin serves.
SCRIPT = """
import subprocess, sys
from pathlib import Path
fio, root = sys.argv[2], Path(sys.argv[4]).absolute()
def told(number, folder, *options):
    (root / folder).mkdir(parents=True, exist_ok=True)
    words = [fio, "--name=a", "--filesize=1M", "--bs=4k", "--verify=md5", "--fallocate=truncate", *options]
    done = subprocess.run(words, cwd=root / folder, capture_output=True)
    print("Test", number, "PASSED" if done.returncode == 0 else f"FAILED: status {done.returncode}")
told(1, "one", "--rw=write", "--ioengine=psync")
told(2, "two", "--rw=read", "--ioengine=psync", "--verify_only", f"--directory={root / 'one'}")
told(3, "three", "--rw=write", "--ioengine=mmap")
told(4, "four", "--rw=write", "--ioengine=none-such")
print("Test 5 SKIPPED")
"""


def suite(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SUITE), *words], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_what_passes_is_counted_and_the_rest_has_its_reason(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t/fiotestlib.py").touch()
    (tmp_path / "t/sequence.py").write_text(SCRIPT)
    fio = subprocess.run(["which", "fio"], capture_output=True, text=True, check=True).stdout.strip()
    said = suite(str(tmp_path), "--fio", fio, "--output", str(tmp_path / "suite.json"))
    assert said.returncode == 0, said.stderr
    content = json.loads((tmp_path / "suite.json").read_text())
    assert list(content["scripts"]) == ["sequence.py"]  # of the others there is none in this tree
    found = content["scripts"]["sequence.py"]
    assert (found["cases"], found["passed"]) == (4, 2)
    mmap, none_such = sorted(found["not passed"])[::-1]
    assert "mmap" in mmap
    assert none_such == "also fails with fio alone"


def test_without_a_source_tree_it_says_how_to_give_one(tmp_path: Path) -> None:
    for words in ([], [str(tmp_path)]):
        said = suite(*words)
        assert said.returncode == 1
        assert "snakemake --cores 1 fio-suite --config fio_source=" in said.stderr
