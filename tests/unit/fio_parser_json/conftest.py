"""The real outputs of fio under data/, for the tests of fio_parser_json."""

from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def data() -> Path:
    return DATA


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `output` once for each of the outputs."""
    if "output" in metafunc.fixturenames:
        paths = sorted(DATA.glob("*.json"))
        metafunc.parametrize("output", paths, ids=[path.stem for path in paths])
