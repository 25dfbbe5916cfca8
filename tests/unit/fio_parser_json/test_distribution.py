"""fio-parser-json is a distribution of its own: built from the tree, installed and used without the rest of it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support import ROOT

SOURCE = ROOT / "src/fio_parser_json"
DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "uv",
        "build",
        "--quiet",
        "--wheel",
        "--no-build-isolation",
        "--out-dir",
        str(folder),
    ]
    subprocess.run([*command, str(SOURCE)], check=True, capture_output=True, text=True, timeout=300)
    (found,) = folder.glob("*.whl")
    return found


def metadata(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as content:
        (name,) = (name for name in content.namelist() if name.endswith("/METADATA"))
        return content.read(name).decode()


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        names = {name for name in content.namelist() if ".dist-info/" not in name}
    assert names == {
        f"fio_parser_json/{path.name}" for path in (SOURCE / "fio_parser_json").iterdir() if path.is_file()
    }


def test_it_needs_pandas_alone_and_says_what_it_is(wheel: Path) -> None:
    said = metadata(wheel)
    assert "Name: fio-parser-json\n" in said
    assert [line for line in said.splitlines() if line.startswith("Requires-Dist")] == ["Requires-Dist: pandas"]
    assert "# fio-parser-json" in said  # the README


def test_it_brings_the_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        (name,) = (name for name in content.namelist() if name.endswith("/entry_points.txt"))
        assert "fio-parser-json=fio_parser_json.__main__:main" in content.read(name).decode()


def test_it_works_out_of_the_wheel_without_the_rest_of_the_project(wheel: Path) -> None:
    code = (
        "import sys, builtins\n"
        f"sys.path.insert(0, {str(wheel)!r})\n"
        "import fio_parser_json\n"
        f"table = fio_parser_json.jobs({str(DATA / 'fio-3.33-randread.json')!r})\n"
        "assert '.whl' in fio_parser_json.__file__, fio_parser_json.__file__\n"
        "assert not [name for name in sys.modules if name.partition('.')[0] == 'iopatterns']\n"
        "print(len(table), table['direction'].iloc[0])"
    )
    said = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert said.stdout.split() == ["1", "read"], said.stderr
