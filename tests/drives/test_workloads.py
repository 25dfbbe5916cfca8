"""Options that shape a workload, measured with real fio on a file and on a twin."""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from loops import loop_device
from measurements import MIB, describe_drive, raw_files
from measurements import measured as measured_files
from support import file_cell, fixture_root

from iopatterns.analysis import collect
from iopatterns.base import units
from iopatterns.configuration import config, grid, iologs, kinds
from iopatterns.measuring import fio
from iopatterns.measuring.cell import MeasureError
from iopatterns.measuring.drives import DriveError
from iopatterns.raw.metadata_files import read_metadata
from iopatterns.raw.records import Specification
from iopatterns.twin import models

BASE = config.load_config(fixture_root(), {"drives": ["scratch"]})
FILE_BYTES = 8 * MIB


@dataclass
class Made:
    """The requests of one repetition.

    Attributes:
        requests: Action, offset and size of each request, in bytes, in their order.
        completed_ms: When each was completed, from the start of the job.
        raw: The raw file.
    """

    requests: list[tuple[str, int, int]]
    completed_ms: list[int]
    raw: Path

    @property
    def offsets(self) -> list[int]:
        return [offset for _, offset, _ in self.requests]

    @property
    def actions(self) -> Counter[str]:
        return Counter(action for action, _, _ in self.requests)

    @property
    def job(self) -> dict[str, Any]:
        (job,) = json.loads(self.raw.read_text())["jobs"]
        return dict(job)


Make = Callable[..., Made]


@pytest.fixture(params=["file", "twin"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(kind: str, disk_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return a function that measures a cell with options; it returns the requests."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    command = fio.fio_command_line
    log = disk_folder / "requests"

    def logging(*arguments: Any, **options: Any) -> list[str]:
        return [*command(*arguments, **options), f"--write_lat_log={log}", "--log_offset=1"]

    monkeypatch.setattr(fio, "fio_command_line", logging)

    def measured(runtime_ms: int = 200, own: iologs.IoLog | None = None, **options: Any) -> Made:
        specification = a_cell(kind, disk_folder, runtime_ms, own, options)
        (raw,) = measured_files(disk_folder, specification)
        assert {path.name for path in raw.parent.iterdir()} == {"01.json", "01.sidecar.json"}
        lines = [line.split(",") for line in Path(f"{log}_lat.1.log").read_text().splitlines()]
        requests = [(("read", "write", "trim")[int(words[2])], int(words[4]), int(words[3])) for words in lines]
        return Made(requests, [int(words[0]) for words in lines], raw)

    return measured


def a_cell(kind: str, folder: Path, runtime_ms: int, own: iologs.IoLog | None, options: dict[str, Any]) -> Any:
    """Return the specification of a grid with a single cell with these options."""
    drive: kinds.ResolvedEntry
    if kind == "file":
        drive = {"kind": "file", "path": str(folder / "drive.bin")}
    else:
        drive = {"kind": "twin", "model": "px05smb040", "model_digest": models.load_model("px05smb040").digest}
    vary = {option: [level] for option, level in {"bs": "4k", **options}.items()}
    fixed: dict[str, int | str] = {"ioengine": "psync", "direct": 1, "group_reporting": 1}
    study: config.StudyConfig = {
        "title": "",
        "source": "",
        "fio": {option: level for option, level in fixed.items() if option not in vary},
        "experiments": {"one": {"vary": vary}},
    }
    conf = replace(
        BASE,
        drives={"test": drive},
        studies={"study": study},
        iologs={} if own is None else {options["read_iolog"]: own},
        file_size_bytes=FILE_BYTES,
        runtime_ms=runtime_ms,
        warmup_ms=0,
    )
    (cell,) = grid.expand_grid(conf, "study")
    return dict(cell.specification)


def steps(made: Made) -> Counter[int]:
    return Counter(after - before for before, after in pairwise(made.offsets))


@pytest.mark.parametrize("rw", ["read", "write"])
@pytest.mark.parametrize(("skip", "step"), [("0", 4096), ("4k", 8192), ("-4k", 0), ("-8k", -4096)])
def test_skip_leaves_gaps_repeats_blocks_or_goes_backwards(make: Make, rw: str, skip: str, step: int) -> None:
    made = make(rw=rw, skip=skip)
    assert set(made.actions) == {rw}
    # except the steps from one end of the file to the other
    found = steps(made)
    assert found[step] >= 0.99 * (sum(found.values()) - 2)
    assert all(0 <= offset <= FILE_BYTES - 4096 for offset in made.offsets)


def test_a_smaller_size_restricts_requests_to_the_first_part(make: Make) -> None:
    offsets = make(rw="randread", size="1 MiB").offsets
    assert max(offsets) < MIB
    assert len(set(offsets)) > 100


@pytest.mark.parametrize("rw", ["read", "randread", "write", "randwrite"])
def test_an_offset_shifts_all_requests_within_the_file(make: Make, rw: str) -> None:
    offsets = make(rw=rw, offset=512).offsets
    assert {offset % 4096 for offset in offsets} == {512}
    assert max(offsets) + 4096 <= FILE_BYTES


def test_half_of_the_requests_are_sequential_if_half_are_random(make: Make) -> None:
    found = steps(make(rw="randwrite", percentage_random=50))
    assert found[4096] / sum(found.values()) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(("align", "boundaries"), [("512", 8), ("4k", 1)])
def test_blockalign_sets_the_alignment_of_random_requests(make: Make, align: str, boundaries: int) -> None:
    offsets = make(rw="randwrite", blockalign=align).offsets
    assert len({offset % 4096 for offset in offsets}) == boundaries
    assert max(offsets) + 4096 <= FILE_BYTES


def test_rwmixread_sets_the_share_of_reads(make: Make) -> None:
    actions = make(rw="randrw", rwmixread=75, runtime_ms=400).actions
    assert actions["read"] / actions.total() == pytest.approx(0.75, abs=0.05)


def test_each_direction_of_a_sequential_mix_is_sequential(make: Make) -> None:
    made = make(rw="readwrite", rwmixread=50)
    for direction in ("read", "write"):
        offsets = [offset for action, offset, _ in made.requests if action == direction]
        assert len(offsets) > 10
        assert {(after - before) % FILE_BYTES for before, after in pairwise(offsets)} == {4096}


def test_random_distribution_makes_some_blocks_hot(make: Make) -> None:
    counts = Counter(make(rw="randread", random_distribution="zipf:1.2", runtime_ms=400).offsets)
    assert counts.most_common(1)[0][1] > 0.05 * counts.total()


def test_a_pause_follows_each_request(make: Make, kind: str) -> None:
    made = make(rw="randread", thinktime="10 ms", runtime_ms=300)
    # a busy machine prolongs many pauses, but not all; in virtual time, none
    assert (15 if kind == "twin" else 4) <= len(made.requests) <= 31
    pauses_ms = sorted(after - before for before, after in pairwise(made.completed_ms))
    assert pauses_ms[0] >= 9
    assert pauses_ms[len(pauses_ms) // 2 if kind == "twin" else 2] <= 15
    assert made.job["read"]["lat_ns"]["mean"] < 9e6  # without the pause


def test_thinktime_blocks_sets_the_requests_between_pauses(make: Make) -> None:
    made = make(rw="write", thinktime="50 ms", thinktime_blocks=16, runtime_ms=300)
    assert 48 <= len(made.requests) <= 7 * 16


def test_a_pause_almost_as_long_as_the_runtime_is_possible(make: Make) -> None:
    made = make(rw="randread", thinktime="199 ms")
    assert 1 <= len(made.requests) <= 2
    assert made.job["read"]["runtime"] >= 180


@pytest.mark.parametrize("size", ["8 MiB", "64k"], ids=["", "beginning again"])
def test_partitions_are_read_in_turn_by_one_job(make: Make, size: str) -> None:
    made = make(rw="read", partitions=4, size=size, runtime_ms=800)
    part = units.parse_size(size) // 4
    # each partition starts again at its own first block
    assert made.offsets == [number % 4 * part + number // 4 * 4096 % part for number in range(len(made.offsets))]
    assert made.job["read"]["total_ios"] == len(made.offsets) > 16
    assert "--readonly" in read_metadata(made.raw)["command"]


def test_a_replay_reads_the_blocks_that_it_has_just_written(make: Make) -> None:
    made = make(rw="randrw", replay="write-read", runtime_ms=400)
    turn = 400 // 16
    assert [action for action, _, _ in made.requests[: 2 * turn]] == ["write"] * turn + ["read"] * turn
    assert made.offsets[:turn] == made.offsets[turn : 2 * turn]
    assert made.offsets[2 * turn : 3 * turn] != made.offsets[:turn]


def test_a_replay_may_end_early_with_its_log(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iologs, "MAX_LOG_REQUESTS", 40)
    made = make(rw="read", partitions=4, runtime_ms=400)
    assert len(made.requests) == 40
    assert made.job["read"]["runtime"] < 300
    # if requests are missing, ending early is an error
    with pytest.raises(fio.FioError, match="400 ms were asked for"):
        fio.check_result(made.raw, read_metadata(made.raw)["specification"], 41)


@pytest.mark.parametrize("depth", [32, 1024])
def test_asynchronous_requests_reach_the_depth(make: Make, depth: int) -> None:
    made = make(rw="randread", ioengine="libaio", iodepth=depth, runtime_ms=300)
    levels = made.job["iodepth_level"]
    assert levels["32" if depth == 32 else ">=64"] > 50
    assert made.job["read"]["total_ios"] > depth


# ---- Rare directions


def test_a_rare_direction_may_have_no_requests(kind: str, disk_folder: Path, make: Make) -> None:
    made = make(rw="randrw", rwmixread=99, thinktime="20 ms", runtime_ms=100)
    done = made.actions.total()
    assert done <= 6
    fio.check_result(made.raw, read_metadata(made.raw)["specification"])
    reads = make(rw="randread", runtime_ms=100).raw
    mixed: Specification = {
        **read_metadata(reads)["specification"],
        "fio": {"rw": "randrw", "rwmixread": 50, "group_reporting": 1},
    }
    with pytest.raises(fio.FioError, match="did no write I/O"):
        fio.check_result(reads, mixed)


# pandas 3 announces that the way in which `collect` keeps integers will go
@pytest.mark.filterwarnings("ignore:The convert_:DeprecationWarning")
def test_a_mix_has_a_row_for_each_direction(make: Make) -> None:
    made = make(rw="randrw", rwmixread=50, runtime_ms=300)
    folder = "/".join(made.raw.parts[-4:-1])
    table = collect.measurement_table(collect.load_metadata([made.raw]), {folder: ["one"]})
    assert list(table["direction"]) == ["read", "write"]
    assert set(table["rwmixread"]) == {50}


# ---- A log of the user


def own_log(folder: Path, *lines: str) -> tuple[str, iologs.IoLog]:
    path = folder / "x.iolog"
    path.write_text("\n".join(["fio version 3 iolog", *lines, ""]))
    return "x.iolog", iologs.load_iolog(path)


WRITING = ("0 /dev/sdz write 4096 8192", "100 /dev/sdz sync 0 0", "200 /dev/sdz read 512 512")


def test_a_log_is_replayed_on_the_drive_not_on_its_own_file(make: Make, disk_folder: Path) -> None:
    path, own = own_log(disk_folder, "0 /dev/sdz add", "0 /dev/sdz open", *WRITING, "300 /dev/sdz close")
    made = make(read_iolog=path, own=own)
    assert [request for request in made.requests if request[2]] == [("write", 4096, 8192), ("read", 512, 512)]
    command = read_metadata(made.raw)["command"]
    assert "--readonly" not in command
    assert not any("sdz" in word for word in command)


def test_a_log_is_replayed_with_or_without_its_times(make: Make, disk_folder: Path) -> None:
    path, own = own_log(disk_folder, *(f"{number * 20_000} a read {number * 4096} 4096" for number in range(10)))
    paced = make(read_iolog=path, own=own, runtime_ms=400)
    assert 180 <= paced.job["read"]["runtime"] < 360  # nine times 20 ms
    fast = make(read_iolog=path, own=own, runtime_ms=400, replay_no_stall=1)
    assert fast.offsets == paced.offsets == [number * 4096 for number in range(10)]
    assert fast.job["read"]["runtime"] < 100
    assert "--readonly" in read_metadata(fast.raw)["command"]


def test_requests_after_the_runtime_are_left_out(make: Make, disk_folder: Path) -> None:
    path, own = own_log(disk_folder, "0 a read 0 4096", f"{10**10} a read 0 4096")
    assert len(make(read_iolog=path, own=own).requests) == 1


@pytest.mark.parametrize("line", ["0 a read 4096 4096", "0 a write 0 4096"])
def test_a_log_that_has_changed_since_planning_is_refused(make: Make, disk_folder: Path, line: str) -> None:
    path, planned = own_log(disk_folder, "0 a read 0 4096")
    own_log(disk_folder, line)
    with pytest.raises(MeasureError, match=r"x\.iolog: has changed since the run was planned"):
        make(read_iolog=path, own=planned)


def test_a_log_that_writes_is_refused_in_a_reading_cell(disk_folder: Path) -> None:
    path, own = own_log(disk_folder, *WRITING)
    specification = a_cell("file", disk_folder, 100, own, {"read_iolog": path})
    specification["fio"] = {**specification["fio"], "rw": "randread"}
    with pytest.raises(MeasureError, match="has changed"):
        measured_files(disk_folder, specification)
    assert not (disk_folder / "drive.bin").exists()


# ---- Consent


@pytest.mark.parametrize(
    ("options", "writes"),
    [
        ({"rw": "randrw", "replay": "write-read"}, True),
        ({"rw": "randread", "replay": "read-read"}, False),
        ({"rw": "write", "partitions": 4}, True),
        ({"rw": "read", "partitions": 4}, False),
        ({"read_iolog": WRITING}, True),
        ({"read_iolog": ("0 a read 0 4096",)}, False),
    ],
    ids=str,
)
def test_a_replay_that_writes_requires_consent(disk_folder: Path, options: dict[str, Any], writes: bool) -> None:
    with loop_device(disk_folder) as disk:
        disk.image.write_bytes(os.urandom(64 * MIB))
        before = disk.checksum()
        drive = {"kind": "block", "path": str(disk.device), "serial": disk.serial}
        describe_drive(disk_folder, {**drive, "expendable": ["data"]}, "test")
        own = None
        if "read_iolog" in options:
            path, own = own_log(disk_folder, *options["read_iolog"])
            options = {"read_iolog": path}
        specification = a_cell("file", disk_folder, 100, own, options)
        specification["drive"] = {**drive, "name": "test", "file_size_bytes": FILE_BYTES}
        if writes:
            with pytest.raises(DriveError, match="refused by the check of consent"):
                measured_files(disk_folder, specification)
        else:
            (raw,) = measured_files(disk_folder, specification)
            assert "--readonly" in read_metadata(raw)["command"]
        assert disk.checksum() == before


# ---- Reproducibility


@pytest.mark.parametrize(
    "options",
    [{"rw": "randrw", "replay": "write-read"}, {"rw": "write", "partitions": 16}, {"rw": "read", "skip": "-8k"}],
    ids=str,
)
def test_two_runs_on_a_twin_give_the_same_bytes_and_command(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    specification = a_cell("twin", tmp_path, 200, None, options)
    found = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        raws = measured_files(Path(), specification, 2)
        found.append([(raw.read_bytes(), read_metadata(raw)["command"]) for raw in raws])
    assert found[0] == found[1]
    assert found[0][0][0] != found[0][1][0] or "replay" not in options  # another seed, other requests


def test_the_replayed_log_is_deleted_after_an_error(disk_folder: Path) -> None:
    specification = file_cell(disk_folder)
    specification["fio"] |= {"rw": "read", "partitions": 4, "ioengine": "nonsense"}
    (raw,) = raw_files(disk_folder, specification)
    with pytest.raises(fio.FioError, match="nonsense") as caught:
        measured_files(disk_folder, specification)
    assert f"--read_iolog={raw.parent}/.01.iolog.partial" in str(caught.value)
    assert list(raw.parent.iterdir()) == []
