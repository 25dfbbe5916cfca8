"""Fixtures of the tests of fio_parser_json: the outputs of fio in data/."""

from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def data() -> Path:
    return DATA


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test with the argument `output` once for each output."""
    if "output" in metafunc.fixturenames:
        paths = sorted(DATA.glob("*.json"))
        metafunc.parametrize("output", paths, ids=[path.stem for path in paths])
