"""The programs that determine the results on a simulated drive."""

import hashlib
from typing import Any

import pytest
from support import ROOT

from iopatterns import _twin
from iopatterns.base import files
from iopatterns.measuring import builds, fio

SOURCES = ROOT / "src/twin"
TWIN: dict[str, Any] = {"specification": {"drive": {"kind": "twin"}}, "simulator": builds.simulator()}


def test_the_checksum_of_the_simulator_is_that_of_its_sources() -> None:
    """If the test fails after a change of src/twin, build the simulator again: ./reproduce.sh setup."""
    paths = sorted(str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*") if path.suffix in {".cc", ".h"})
    lines = (f"{files.sha256(SOURCES / path)}  {path}\n" for path in paths if not path.startswith("linux/"))
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == _twin.SOURCES_SHA256


@pytest.mark.parametrize(
    ("changes", "are_current"),
    [
        ({"fio_version": fio.version()}, True),
        ({"fio_version": "fio-1.0"}, False),
        ({"fio_version": fio.version(), "simulator": "0" * 64}, False),
        ({}, True),  # settings did not take effect, so that fio did not run
        ({"specification": {"drive": {"kind": "twin"}, "replay": {}}, "fio_version": "fio-1.0"}, True),
        ({"specification": {"drive": {"kind": "block"}}, "fio_version": "fio-1.0", "simulator": None}, True),
    ],
)
def test_programs_are_compared_for_simulated_drives_only(changes: dict[str, Any], are_current: bool) -> None:
    assert builds.are_current(builds.programs_of({**TWIN, **changes})) == are_current  # type: ignore[typeddict-item]


def test_metadata_of_earlier_versions_are_not_current() -> None:
    earlier: Any = {"specification": TWIN["specification"], "fio_version": fio.version()}
    assert not builds.are_current(builds.programs_of(earlier))
