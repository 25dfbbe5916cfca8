"""The native tests, built and run with each sanitizer."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from support import ROOT

from iopatterns.twin import running

PROGRAMS = {"address,undefined": ["model_tests", "clock_tests"], "thread": ["clock_tests", "preload_tests"]}


@pytest.mark.parametrize("sanitizers", PROGRAMS)
def test_native_tests_pass_under(sanitizers: str, tmp_path: Path) -> None:
    # the build folder is kept, so that later runs compile only changed files
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
        command = [str(build / "tests" / program)]
        if program != "preload_tests":
            run(command)
            continue
        # in virtual time, two runs of a program print the same output
        assert run(command, on_a_twin(tmp_path)) == run(command, on_a_twin(tmp_path))


def on_a_twin(state: Path) -> dict[str, str]:
    """Return the environment of `twin run` for a program that is linked with the preload library."""
    environment = running.prepare_environment("px05smb040", str(state))
    del environment["LD_PRELOAD"]
    return environment


def run(command: list[str], environment: Mapping[str, str] = os.environ) -> str:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout[-8000:]
    return done.stdout
