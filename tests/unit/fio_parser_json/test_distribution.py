"""Tests of the distribution fio-parser-json on its own."""

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
    command = f"-m uv build --quiet --wheel --no-build-isolation --out-dir {folder} {SOURCE}"
    subprocess.run([sys.executable, *command.split()], check=True, capture_output=True, text=True, timeout=300)
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_contains_only_the_package_its_readme_and_the_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        metadata, entry_points = (
            content.read(name).decode() for name in sorted(names) if name.endswith(("/METADATA", "/entry_points.txt"))
        )
    files = {f"fio_parser_json/{path.name}" for path in (SOURCE / "fio_parser_json").iterdir() if path.is_file()}
    assert {name for name in names if ".dist-info/" not in name} == files
    assert "Name: fio-parser-json\n" in metadata
    assert [line for line in metadata.splitlines() if line.startswith("Requires-Dist")] == ["Requires-Dist: pandas"]
    assert "# fio-parser-json" in metadata  # the README
    assert "fio-parser-json=fio_parser_json.__main__:main" in entry_points


def test_the_wheel_works_without_the_rest_of_the_project(wheel: Path) -> None:
    code = (
        "import sys, builtins\n"
        f"sys.path.insert(0, {str(wheel)!r})\n"
        "import fio_parser_json\n"
        f"table = fio_parser_json.jobs({str(DATA / 'fio-3.33-randread.json')!r})\n"
        "assert '.whl' in fio_parser_json.__file__, fio_parser_json.__file__\n"
        "assert not [name for name in sys.modules if name.partition('.')[0] == 'iopatterns']\n"
        "print(len(table), table['direction'].iloc[0])"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.split() == ["1", "read"], done.stderr
