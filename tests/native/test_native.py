"""Builds the native tests with each sanitizer and runs them."""

import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

PROGRAMS = {"address,undefined": ["model_tests", "clock_tests"], "thread": ["clock_tests"]}


@pytest.mark.parametrize("sanitizers", PROGRAMS)
def test_native_tests_pass_under(sanitizers: str) -> None:
    # kept between runs: only what has changed is compiled again
    build = ROOT / "build" / f"native-{sanitizers.replace(',', '-')}"
    tools = Path(sys.executable).parent
    cmake = str(tools / "cmake") if (tools / "cmake").exists() else "cmake"
    configure = [cmake, "-S", str(ROOT / "src/twin"), "-B", str(build), "-G", "Ninja", "-DTWIN_TESTS=ON"]
    configure += ["-DCMAKE_BUILD_TYPE=Release", f"-DTWIN_SANITIZE={sanitizers}"]
    if (tools / "ninja").exists():
        configure.append(f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}")
    run(configure)
    run([cmake, "--build", str(build), "--target", *PROGRAMS[sanitizers]])
    for program in PROGRAMS[sanitizers]:
        run([str(build / "tests" / program)])


def run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:]
