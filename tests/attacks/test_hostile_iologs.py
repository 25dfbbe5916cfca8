"""Hostile logs and tables are refused with one line, in bounded time and memory."""

from pathlib import Path

import pytest
from support import make_odd_files, refusal_message

from iopatterns.analysis.published import load_source_drives, load_values
from iopatterns.configuration import iologs
from iopatterns.configuration.sources import VALUE_COLUMNS, PublishedError
from iopatterns.twin.error import TwinError
from iopatterns.twin.points import read_points

HEAD = "fio version 2 iolog\n"


def _refused(path: Path) -> str:
    message = refusal_message(lambda: iologs.load_iolog(path), iologs.IologError, 600 + len(str(path)))
    assert message.isprintable()
    return message


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Return a folder with pipes, devices and other files that are not logs."""
    make_odd_files(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["fifo", "zero", "folder", "loop", "sparse"])
def test_pipes_devices_and_huge_files_are_refused_as_logs(odd: Path, name: str) -> None:
    assert "cannot be read: " in _refused(odd / name)


@pytest.mark.parametrize("name", ["fifo", "zero", "loop", "sparse"])
def test_pipes_devices_and_huge_files_are_refused_as_tables(odd: Path, name: str) -> None:
    for file in ("values.csv", "drives.csv"):
        (odd / file).symlink_to(odd / name)
    for reader in (load_values, load_source_drives):
        with pytest.raises(PublishedError, match="not readable"):
            reader(odd)
    (odd / "points.csv").symlink_to(odd / name)
    with pytest.raises(TwinError, match="not readable"):
        read_points([odd / "points.csv"])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("f read 18446744073709551616 4096", "no whole number below 2^62"),
        (f"f read {'9' * 5_000} 4096", "a line has at most 4096 characters"),
        (f"f read {'9' * 200} 4096", "no whole number below 2^62"),
        ("f read 9223372036854775807 4096", "no whole number below 2^62"),
        ("f\0g read 0 4096", "control characters"),
        ("\x1b[31mred read 0 4096", "control characters"),
        ("f\x1b]0;title\x07 read 0 4096", "control characters"),
        (f"{'f' * 10_000_000} read 0 4096", "a line has at most 4096 characters"),
        ("f read -1 4096", "no whole number"),
        ("f read 1e3 4096", "no whole number"),
        ("f read nan 4096", "no whole number"),
    ],
)
def test_the_message_names_an_invalid_line(tmp_path: Path, line: str, expected: str) -> None:
    path = tmp_path / "log"
    path.write_text(f"{HEAD}f add\n{line}\n")
    message = _refused(path)
    assert "line 3: " in message
    assert expected in message


def test_an_endless_first_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"f" * 30_000_000)
    assert "line 1: the first line" in _refused(tmp_path / "log")


def test_the_number_of_requests_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iologs, "_MOST_OWN_REQUESTS", 10)
    (tmp_path / "log").write_text(HEAD + "f read 0 4096\n" * 11)
    assert "at most 10 requests" in _refused(tmp_path / "log")
    (tmp_path / "log").write_text(HEAD + "f read 0 4096\n" * 10)
    assert len(iologs.load_iolog(tmp_path / "log").requests) == 10


@pytest.mark.parametrize("value", ["9" * 400, "inf", "nan", "１２", "1e5", "-1"])
def test_a_published_value_is_a_plain_decimal_number(tmp_path: Path, value: str) -> None:
    row = dict.fromkeys(VALUE_COLUMNS, "") | {"id": "a", "place": "p", "quantity": "q", "relation": "="}
    row |= {"value": value, "quote": f"it is {value}"}
    (tmp_path / "values.csv").write_text(f"{','.join(VALUE_COLUMNS)}\n{','.join(row.values())}\n")
    with pytest.raises(PublishedError, match="is not a number such as") as caught:
        load_values(tmp_path)
    assert len(str(caught.value)) < 500
