"""I/O logs for fio: generated for a cell, or given by the user."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iopatterns.configuration import iologs

MIB = 2**20


def made(options: dict[str, Any], randseed: int = 7, runtime_ms: int = 1000) -> Sequence[iologs.LogRequest]:
    specification: Any = {
        "runtime_ms": runtime_ms,
        "drive": {"file_size_bytes": 8 * MIB},
        "fio": {"bs": 4096, **options},
    }
    requests = iologs.replayed_requests(specification, None, randseed, runtime_ms)
    assert requests is not None
    return requests


def test_a_cell_whose_requests_fio_generates_has_no_log() -> None:
    specification: Any = {"fio": {"rw": "randread", "bs": 4096}}
    assert iologs.replayed_requests(specification, None, 7, 1000) is None


def test_partitions_take_turns_and_each_is_sequential() -> None:
    requests = made({"rw": "write", "partitions": 4})
    offsets = [step * 4096 + part * 2 * MIB for step in range(2) for part in range(4)]
    assert [request.offset_bytes for request in requests[:9]] == [*offsets, 8192]
    assert {request.action for request in requests} == {"write"}


@settings(deadline=None)
@given(st.integers(1, 2048), st.sampled_from([512, 4096, 12288, 65536]), st.sampled_from([0, 512, MIB]))
def test_all_requests_are_in_the_part_of_the_file(partitions: int, bs: int, offset: int) -> None:
    size = 7 * MIB
    if size // bs < partitions:
        return
    options = {"bs": bs, "offset": offset, "size": size}
    for requests in (
        made({"rw": "read", "partitions": partitions, **options}, runtime_ms=50),
        made({"rw": "randrw", "replay": "write-read", **options}, runtime_ms=50),
    ):
        assert all(offset <= request.offset_bytes <= offset + size - bs for request in requests)
        assert {request.length_bytes for request in requests} == {bs}


def test_one_partition_is_read_sequentially_and_repeatedly() -> None:
    offsets = [request.offset_bytes for request in made({"rw": "read", "partitions": 1, "size": MIB})]
    assert offsets[:256] == list(range(0, MIB, 4096))
    assert offsets[256:512] == offsets[:256]


def test_a_replay_reads_what_was_written_in_the_same_order() -> None:
    requests = made({"rw": "randrw", "replay": "write-read"})
    phases = [list(phase) for _, phase in itertools.groupby(requests, key=lambda request: request.action)]
    assert [phase[0].action for phase in phases[:4]] == ["write", "read", "write", "read"]
    for write, read in zip(phases[::2], phases[1::2], strict=False):  # the last phase may be incomplete
        offsets = [request.offset_bytes for request in write]
        assert [request.offset_bytes for request in read] == offsets[: len(read)]
        assert len(set(offsets)) > len(offsets) / 2
    assert phases[0] != phases[2]


def test_a_replay_depends_on_the_seed_alone() -> None:
    replay = {"rw": "randrw", "replay": "write-read"}
    assert made(replay) == made(replay)
    assert made(replay, randseed=8) != made(replay)
    # raw files of simulated drives depend on the same numbers in every version of Python
    assert [request.offset_bytes // 4096 for request in made(replay)[:4]] == [663, 308, 1333, 148]


@pytest.mark.parametrize("runtime_ms", [1, 100, 1000, 3_600_000])
def test_the_length_of_a_log_follows_the_runtime_and_is_bounded(runtime_ms: int) -> None:
    for options in ({"rw": "read", "partitions": 4}, {"rw": "randrw", "replay": "write-read"}):
        requests = made(options, runtime_ms=runtime_ms)
        assert len(requests) == min(65_536, 64 * runtime_ms)


def test_a_drive_with_8_ms_per_request_reaches_the_reads_of_a_replay() -> None:
    for runtime_ms in (100, 1000, 10_000):
        first = [request.action for request in made({"rw": "randrw", "replay": "write-read"}, runtime_ms=runtime_ms)]
        assert first.index("read") * 8 <= runtime_ms / 2


def log(folder: Path, *lines: str, version: int = 2) -> Path:
    path = folder / "x.iolog"
    path.write_text("\n".join([f"fio version {version} iolog", *lines, ""]))
    return path


def test_a_log_of_fio_is_read(tmp_path: Path) -> None:
    lines = ["/dev/sdz add", "/dev/sdz open", "/dev/sdz write 4096 8192", "/dev/sdz read 0 512", "/dev/sdz close"]
    found = iologs.load_iolog(log(tmp_path, *lines))
    assert found.requests == [iologs.LogRequest(0, "write", 4096, 8192), iologs.LogRequest(0, "read", 0, 512)]
    assert (found.rw, found.largest_bytes, found.end_bytes) == ("randrw", 8192, 12288)


def test_times_count_from_the_first_request(tmp_path: Path) -> None:
    found = iologs.load_iolog(
        log(tmp_path, "7 a add", "100 a read 0 512", "350 a sync 0 0", "400 a read 512 512", version=3)
    )
    assert [request.time_us for request in found.requests] == [0, 250, 300]


@pytest.mark.parametrize(
    ("actions", "rw"),
    [
        (["read"], "randread"),
        (["write"], "randwrite"),
        (["read", "write"], "randrw"),
        (["read"] * 99 + ["write"], "randrw"),
        (["read", "sync"], "randrw"),
        (["write", "datasync"], "randwrite"),
    ],
)
def test_the_workload_is_that_of_the_actions(tmp_path: Path, actions: list[str], rw: str) -> None:
    assert iologs.load_iolog(log(tmp_path, *(f"a {action} 0 512" for action in actions))).rw == rw


@pytest.mark.parametrize(
    ("version", "lines", "expected"),
    [
        (4, ["a read 0 512"], "line 1: the first line of a log must be one of: fio version 2 iolog, fio version 3"),
        (2, ["a read 0"], "line 2: 'a read 0': the syntax is FILE ACTION [OFFSET LENGTH]"),
        (3, ["a read 0 512"], "line 2: 'a read 0 512': the time is 'a', no whole number"),
        (2, ["a read -512 512"], "the offset is '-512', no whole number"),
        (2, ["a read 0 4k"], "the length is '4k', no whole number"),
        (2, ["a read 0 0"], "a request of 0 bytes"),
        (2, ["a read"], "the syntax is FILE ACTION"),
        (2, ["a add", "a trim 0 512"], "line 3: 'a trim 0 512': 'trim' is not supported"),
        (2, ["a wait 100 0"], "write times instead (version 3)"),
        (3, ["9 a read 0 512", "8 a read 0 512"], "line 3: '8 a read 0 512': its time"),
        (2, ["a read 0 512", "b read 0 512"], "its requests go to 2 files (a, b …)"),
        (2, ["a add", "a open", "a close"], "no request reads or writes"),
    ],
)
def test_a_log_that_cannot_be_replayed_is_refused(
    tmp_path: Path, version: int, lines: list[str], expected: str
) -> None:
    with pytest.raises(iologs.IologError) as caught:
        iologs.load_iolog(log(tmp_path, *lines, version=version))
    assert f"{tmp_path / 'x.iolog'}: " in str(caught.value)
    assert expected in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"read,0,512\n"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.iolog").write_bytes(content)
    with pytest.raises(iologs.IologError, match=r"x\.iolog: (line 1|cannot be read)"):
        iologs.load_iolog(tmp_path / "x.iolog")


def test_requests_after_the_runtime_are_left_out(tmp_path: Path) -> None:
    own = iologs.load_iolog(log(tmp_path, *(f"{second * 1_000_000} a read 0 512" for second in range(3)), version=3))
    fio: Any = {"rw": own.rw, "bs": 512, "read_iolog": "x.iolog"}
    specification: Any = {"fio": fio}
    found = iologs.replayed_requests(specification, own, 7, 1500)
    assert found is not None
    assert len(found) == 2
    fio["replay_no_stall"] = 1
    assert iologs.replayed_requests(specification, own, 7, 1500) == own.requests


REQUESTS = st.builds(
    iologs.LogRequest,
    st.integers(0, 10**9),
    st.sampled_from(["read", "write", "sync"]),
    st.integers(0, 2**40),
    st.integers(1, 2**20),
)


@settings(deadline=None)
@given(st.lists(REQUESTS, min_size=1))
def test_a_written_log_gives_its_requests(
    tmp_path_factory: pytest.TempPathFactory, requests: list[iologs.LogRequest]
) -> None:
    requests = sorted(requests, key=lambda request: request.time_us)
    requests = [request._replace(time_us=request.time_us - requests[0].time_us) for request in requests]
    path = tmp_path_factory.mktemp("log") / "x.iolog"
    path.write_text(iologs.iolog_text(requests))
    if iologs.count_transfers(requests):
        assert iologs.load_iolog(path).requests == requests
