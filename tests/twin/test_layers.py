"""The folders of src/twin include only folders of lower layers, and the build refuses other includes."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

TWIN = ROOT / "src/twin"
# The order in CONTRIBUTING
ORDER = ["core", "host", "link", "flash", "ftl", "controller", "disk", "drive", "scsi", "nvme", "clock"]
ORDER += ["preload", "linux", "python"]
# The folders that the files of a folder may include; preload and python may include all
KNOWS = {
    "core": [],
    "host": ["core"],
    "link": ["core"],
    "flash": ["core"],
    "ftl": ["core", "flash"],
    "controller": ["core", "link", "flash", "ftl"],
    "disk": ["core", "link"],
    "drive": ["core", "host", "link", "flash", "ftl", "controller", "disk"],
    "scsi": ["core", "host", "link", "flash", "ftl", "controller", "disk", "drive"],
    "nvme": ["core", "host", "link", "flash", "ftl", "controller", "disk", "drive"],
    "clock": ["core"],
    "linux": ["core", "host", "link", "flash", "ftl", "controller", "disk", "drive", "scsi"],
}


def test_the_order_contains_every_folder() -> None:
    assert sorted(path.name for path in TWIN.iterdir() if path.is_dir()) == sorted(ORDER)


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Commands that compile a file of each folder, without input and output."""
    build = tmp_path_factory.mktemp("build")
    cmake = Path(sys.executable).with_name("cmake")
    configure = [str(cmake) if cmake.exists() else "cmake", "-S", str(TWIN), "-B", str(build), "-DTWIN_TESTS=ON"]
    subprocess.run(configure, check=True, capture_output=True)
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = Path(entry["file"])
        if path.is_relative_to(TWIN):
            words = shlex.split(entry["command"])
            found[path.parent.name] = words[: words.index("-o")]
    return found


def compiles(command: list[str], folder: Path, header: str) -> subprocess.CompletedProcess[str]:
    source = folder / "try.cc"
    source.write_text(f'#include "{header}"\n')
    words = [*command, "-E", "-o", "/dev/null", str(source)]  # finding headers needs only the preprocessor
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)


@pytest.mark.parametrize("folder", [name for name in KNOWS if name != "core"])  # core has only headers
def test_an_include_of_a_higher_layer_does_not_compile(
    folder: str, commands: dict[str, list[str]], tmp_path: Path
) -> None:
    known = [folder, *KNOWS[folder]]
    for other in ORDER:
        header = sorted((TWIN / other).glob("*.h"))[0].relative_to(TWIN)
        done = compiles(commands[folder], tmp_path, str(header))
        if other in known:
            assert done.returncode == 0, done.stderr
        else:
            assert done.returncode != 0, f"{folder} can include {header}"
            assert f"{header}: No such file or directory" in done.stderr
