"""The grid: what a cell's name and hash depend on, and what they do not."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import fixture_root

from iopatterns.configuration import config, grid, iologs, kinds
from iopatterns.measuring import fio
from iopatterns.raw import cells

BASE = config.load_config(fixture_root(), {"drives": ["scratch"]})
FIO: dict[str, int | str] = {"ioengine": "sync", "direct": 1}


def expand(vary: dict[str, list[Any]], fio: dict[str, Any] = FIO, **changes: Any) -> list[grid.Cell]:
    study: config.StudyConfig = {"title": "", "source": "", "fio": fio, "experiments": {"one": {"vary": vary}}}
    return list(grid.expand_grid(replace(BASE, studies={"study": study}, **changes), "study"))


def names(*arguments: Any, **changes: Any) -> set[str]:
    return {cell.folder for cell in expand(*arguments, **changes)}


TWO_BY_TWO = {"rw": ["read", "randread"], "bs": ["4k", "28k"]}


def test_all_combinations_of_levels_are_cells() -> None:
    readable = [cell.name.rsplit("-", 1)[0] for cell in expand(TWO_BY_TWO)]
    assert readable == ["read-4k-j1", "read-28k-j1", "randread-4k-j1", "randread-28k-j1"]


def shipped(*drives: str) -> list[grid.Cell]:
    return list(grid.expand_grid(config.load_config(fixture_root(), {"drives": list(drives)}), "tiny"))


def test_an_experiment_runs_on_the_drives_that_it_names() -> None:
    experiments = BASE.studies["tiny"]["experiments"]
    named = {name for name, body in experiments.items() if "ssdsc2kg480g7" in body["drives"]}
    assert (
        {name for cell in shipped("ssdsc2kg480g7") for name in cell.experiments}
        == named
        == {"initial", "refusing", "depth"}
    )


def test_a_drive_that_no_experiment_names_gets_the_whole_study() -> None:
    own = {name for cell in shipped("scratch") for name in cell.experiments}
    assert own == set(BASE.studies["tiny"]["experiments"])


def test_a_cell_names_each_experiment_that_asks_for_it() -> None:
    found = {cell.experiments for cell in shipped("c400") if cell.name.startswith("read-4k-j1-")}
    assert ("initial", "block-size") in found


def test_settings_stand_in_specification_and_name() -> None:
    (cell,) = expand({"rw": ["read"], "bs": ["4k"], "DRA": [1], "scheduler": ["none"]})
    assert cell.specification["settings"] == {"DRA": 1, "scheduler": "none"}
    assert cell.name.startswith("read-4k-j1-dra1-none-")
    (plain,) = expand({"rw": ["read"], "bs": ["4k"]})
    assert "settings" not in plain.specification


def test_an_experiment_is_measured_for_as_long_as_it_needs_and_no_shorter_than_the_others() -> None:
    experiments: dict[str, config.ExperimentConfig] = {
        "long": {"runtime": "20 s", "vary": {"rw": ["write"], "bs": ["4k"]}},
        "short": {"runtime": "1 ms", "vary": {"rw": ["read"], "bs": ["4k"]}},
        "usual": {"vary": {"rw": ["randread"], "bs": ["4k"]}},
    }
    study: config.StudyConfig = {"title": "", "source": "", "fio": FIO, "experiments": experiments}
    conf = replace(BASE, studies={"study": study}, runtime_ms=1000)
    cells_of = {cell.experiments[0]: cell.specification["runtime_ms"] for cell in grid.expand_grid(conf, "study")}
    assert cells_of == {"long": 20_000, "short": 1000, "usual": 1000}


def test_fio_counts_only_after_the_time_before_counting_and_in_five_rounds() -> None:
    (cell,) = expand({"rw": ["randwrite"], "bs": ["4k"]}, {**FIO, "ramp_time": "4 s"})
    words = fio.fio_command_line(cell.specification, "target", 1, 20_000, "out.json")
    assert {"--ramp_time=4000000us", "--runtime=20000ms", "--iopsavgtime=3800"} <= set(words)


def test_a_study_may_say_over_how_long_fio_takes_each_rate() -> None:
    (cell,) = expand({"rw": ["randread"], "bs": ["4k"]}, {**FIO, "iopsavgtime": 500})
    words = fio.fio_command_line(cell.specification, "target", 1, 60_000, "out.json")
    assert [word for word in words if word.startswith("--iopsavgtime")] == ["--iopsavgtime=500"]


def test_regions_give_each_job_a_part_of_the_file_of_its_own() -> None:
    experiment: config.ExperimentConfig = {"regions": 4, "vary": {"rw": ["read"], "bs": ["4k"], "numjobs": [1, 4]}}
    study: config.StudyConfig = {"title": "", "source": "", "fio": FIO, "experiments": {"one": experiment}}
    conf = replace(BASE, studies={"study": study}, file_size_bytes=10 * 2**20)
    for cell in grid.expand_grid(conf, "study"):
        assert cell.specification["fio"]["size"] == cell.specification["fio"]["offset_increment"] == 2 * 2**20
    experiment["vary"]["numjobs"] = [8]
    with pytest.raises(grid.GridError, match="8 jobs need as many regions"):
        list(grid.expand_grid(conf, "study"))


def test_added_level_adds_its_cells_and_changes_no_other() -> None:
    more = {**TWO_BY_TWO, "bs": ["4k", "16k", "28k"]}
    added = names(more) - names(TWO_BY_TWO)
    assert names(TWO_BY_TWO) < names(more)
    assert {name.split("/")[-1].rsplit("-", 1)[0] for name in added} == {"read-16k-j1", "randread-16k-j1"}


def test_another_spelling_of_a_level_is_the_same_cell() -> None:
    assert names({"rw": ["read"], "bs": ["4k"]}) == names({"rw": ["read"], "bs": [4096]})
    assert names({"rw": ["read"], "bs": ["4k"]}) == names({"rw": ["read"], "bs": ["4 KiB"]})


def test_order_of_options_does_not_matter() -> None:
    assert names(TWO_BY_TWO, {"direct": 1, "ioengine": "sync"}) == names(TWO_BY_TWO, FIO)


def test_same_point_in_two_experiments_is_one_cell() -> None:
    experiments: dict[str, config.ExperimentConfig] = {
        "one": {"vary": {"rw": ["read"], "bs": ["4k"]}},
        "two": {"vary": {"rw": ["read"], "bs": ["4k", "8k"]}},
    }
    study: config.StudyConfig = {"title": "", "source": "", "fio": FIO, "experiments": experiments}
    assert len(list(grid.expand_grid(replace(BASE, studies={"study": study}), "study"))) == 2


@pytest.mark.parametrize(
    "change",
    [{"runtime_ms": 1}, {"warmup_ms": 1}, {"seed": 1}, {"file_size_bytes": 2**21}],
    ids=lambda change: next(iter(change)),
)
def test_what_can_change_a_measurement_changes_every_name(change: dict[str, int]) -> None:
    assert not names(TWO_BY_TWO) & names(TWO_BY_TWO, **change)


@pytest.mark.parametrize("change", [{"repetitions": 3}, {"confidence": 0.9}, {"interval": "bca"}])
def test_what_cannot_change_a_measurement_changes_no_name(change: dict[str, Any]) -> None:
    assert names(TWO_BY_TWO) == names(TWO_BY_TWO, **change)


def test_drive_description_changes_no_name_and_its_path_changes_all() -> None:
    def on(**drive: str) -> set[str]:
        return names(TWO_BY_TWO, drives={"d": {"kind": "file", **drive}})

    assert on(path="a", description="old") == on(path="a", description="new")
    assert not on(path="a") & on(path="b")


def test_queue_depth_shows_in_the_name_only_where_it_has_an_effect() -> None:
    sync, async_ = (
        {"ioengine": engine, "iodepth": depth, "direct": 1} for engine, depth in (("sync", 1), ("libaio", 32))
    )
    assert "-q" not in expand({"rw": ["read"], "bs": ["4k"]}, sync)[0].name
    assert expand({"rw": ["read"], "bs": ["4k"]}, async_)[0].name.startswith("read-4k-q32-j1-")


def test_cell_without_a_block_size_is_refused() -> None:
    with pytest.raises(grid.GridError, match=r"study.yaml: experiments.one: no 'bs'"):
        expand({"rw": ["read"]})


def test_block_larger_than_the_file_is_refused() -> None:
    with pytest.raises(grid.GridError, match="bs 2m is larger than the file"):
        expand({"rw": ["read"], "bs": ["2m"]}, file_size_bytes=2**20)


def test_study_can_have_its_own_number_of_repetitions() -> None:
    study: config.StudyConfig = {**BASE.studies["tiny"], "repetitions": 3}
    assert grid.repetitions(BASE, "tiny") == 10
    assert grid.repetitions(replace(BASE, studies={"tiny": study}), "tiny") == 3


WHOLE_SECTORS = st.integers(1, 2**11).map(lambda sectors: 512 * sectors)


@given(
    st.lists(st.sampled_from(["read", "randread", "write", "randrw"]), min_size=1, unique=True),
    st.lists(WHOLE_SECTORS, min_size=1, max_size=6, unique=True),
    st.lists(st.integers(1, 64), min_size=1, max_size=4, unique=True),
)
def test_names_are_as_many_as_combinations(rw: list[str], bs: list[int], numjobs: list[int]) -> None:
    found = expand({"rw": rw, "bs": bs, "numjobs": numjobs})
    assert len({cell.folder for cell in found}) == len(found) == len(rw) * len(bs) * len(numjobs)


@given(st.integers(1, 9999), st.integers(1, 9999))
def test_each_execution_has_its_own_seed_and_keeps_it(one: int, other: int) -> None:
    specification = expand(TWO_BY_TWO)[0].specification
    assert cells.randseed(specification, one) == cells.randseed(dict(reversed(list(specification.items()))), one)
    assert (cells.randseed(specification, one) == cells.randseed(specification, other)) == (one == other)


# ---- Order, place and pauses of requests


def refused(vary: dict[str, list[Any]], fio: dict[str, Any] = FIO, **changes: Any) -> str:
    with pytest.raises(grid.GridError) as caught:
        expand(vary, fio, **changes)
    assert str(caught.value).startswith("config/studies/study.yaml: experiments.one: ")
    return str(caught.value)


def point(vary: dict[str, list[Any]], **changes: Any) -> dict[str, Any]:
    (cell,) = expand({"bs": ["4k"], **vary}, **changes)
    return dict(cell.specification["fio"])


def test_new_factors_show_in_specification_and_name() -> None:
    def named(**vary: Any) -> tuple[str, dict[str, Any]]:
        (cell,) = expand({"bs": ["4k"], **{option: [level] for option, level in vary.items()}})
        fio = cell.specification["fio"]
        return cell.name.rsplit("-", 1)[0], {option: fio[option] for option in vary if option != "rw"}

    assert named(rw="read", skip="-8k") == ("read-4k-j1-skip-8k", {"skip": -8192})
    assert named(rw="read", skip="4k") == ("read-4k-j1-skip4k", {"skip": 4096})
    assert named(rw="randread", size="8 MiB") == ("randread-4k-j1-size8m", {"size": 2**23})
    assert named(rw="write", partitions=4) == ("write-4k-j1-parts4", {"partitions": 4})
    assert named(rw="randrw", replay="write-read") == ("randrw-4k-j1-write-read", {"replay": "write-read"})
    assert named(rw="randread", random_distribution="zoned:60/10:40/90")[0] == "randread-4k-j1-zoned_60_10_40_90"


def test_an_offset_leaves_what_lies_behind_it_in_whole_mib() -> None:
    assert point({"rw": ["read"], "offset": [512]})["size"] == BASE.file_size_bytes - 2**20
    assert point({"rw": ["read"], "offset": ["1 MiB"]})["size"] == BASE.file_size_bytes - 2**20
    assert "size" not in point({"rw": ["read"], "offset": [0]})
    assert point({"rw": ["read"], "offset": [512], "size": ["2m"]})["size"] == 2**21


def test_a_name_says_a_size_only_where_it_was_asked_for() -> None:
    (shifted,) = expand({"rw": ["read"], "bs": ["4k"], "offset": [512]})
    assert shifted.name.startswith("read-4k-j1-off512-")


def test_jobs_that_are_set_apart_stay_in_the_file() -> None:
    found = point({"rw": ["read"], "offset_increment": ["16m"], "numjobs": [4]})
    assert found["size"] == BASE.file_size_bytes - 3 * 2**24


def test_an_offset_within_regions_makes_each_smaller() -> None:
    experiment: config.ExperimentConfig = {
        "regions": 4,
        "fio": {"offset": 512},
        "vary": {"rw": ["read"], "bs": ["4k"], "numjobs": [4]},
    }
    study: config.StudyConfig = {"title": "", "source": "", "fio": FIO, "experiments": {"one": experiment}}
    (cell,) = grid.expand_grid(replace(BASE, studies={"study": study}, file_size_bytes=2**24), "study")
    assert (cell.specification["fio"]["size"], cell.specification["fio"]["offset_increment"]) == (3 * 2**20, 2**22)
    experiment["fio"] = {"size": "1m"}
    with pytest.raises(grid.GridError, match="regions says already how much"):
        list(grid.expand_grid(replace(BASE, studies={"study": study}), "study"))


@given(
    st.sampled_from([1, 2, 4]),
    st.integers(0, 2**14),
    st.integers(0, 2**12),
    st.one_of(st.none(), st.integers(8, 2**14)),
)
def test_no_cell_reaches_beyond_the_file(numjobs: int, offset: int, increment: int, size: int | None) -> None:
    # fio would delete the file, and then refuse to make a new one
    vary: dict[str, list[Any]] = {"rw": ["read"], "bs": [4096], "numjobs": [numjobs]}
    offset, increment = 512 * offset, 512 * increment
    vary |= {"offset": [offset], "offset_increment": [increment]}
    try:
        (cell,) = expand(vary | ({} if size is None else {"size": [512 * size]}), file_size_bytes=2**23)
    except grid.GridError:
        return
    fio = cell.specification["fio"]
    assert offset + (numjobs - 1) * increment + fio.get("size", 2**23) <= 2**23


@pytest.mark.parametrize(
    ("vary", "expected"),
    [
        ({"rw": ["randread"], "skip": ["4k"]}, "skip is for sequential requests: rw read or write, not randread"),
        ({"rw": ["readwrite"], "skip": ["4k"]}, "rw read or write, not readwrite"),
        ({"rw": ["read"], "skip": ["-1 GiB"]}, "skip -1g leads out of the part used of the file"),
        ({"rw": ["randread"], "partitions": [4]}, "partitions is for sequential requests"),
        ({"rw": ["read"], "percentage_random": [50]}, "percentage_random is for random requests: rw read has none"),
        ({"rw": ["write"], "blockalign": [512]}, "blockalign is for random requests: rw write has none"),
        ({"rw": ["read"], "size": ["2 GiB"]}, "size 2g is larger than the file (config/config.yaml: file_size: 1g)"),
        ({"rw": ["read"], "size": ["1k"]}, "bs 4k is larger than the part used of the file"),
        ({"rw": ["read"], "size": ["1g"], "offset": ["512"]}, "size 1g from offset 512 on is more than the file (1g)"),
        ({"rw": ["read"], "offset": ["1 GiB"]}, "bs 4k is larger than the part used of the file"),
        ({"rw": ["read"], "thinktime": ["1 s"]}, "thinktime 1000000 us is no shorter than an execution"),
        ({"rw": ["read"], "thinktime_blocks": [4]}, "thinktime_blocks is the number of requests between pauses"),
        ({"rw": ["randread"], "replay": ["write-read"]}, "replay write-read is rw randrw, not randread"),
        ({"rw": ["randrw"], "replay": ["write-write"]}, "replay write-write is rw randwrite, not randrw"),
        ({"rw": ["randrw"], "replay": ["read-read"]}, "replay read-read is rw randread, not randrw"),
        ({"rw": ["randrw"], "replay": ["write-read"], "rwmixread": [50]}, "replay and rwmixread do not go together"),
        ({"rw": ["read"], "partitions": [4], "skip": ["4k"]}, "partitions and skip do not go together"),
        ({"rw": ["read"], "partitions": [4], "numjobs": [2]}, "partitions is for one job, not for 2"),
        ({"rw": ["read"], "partitions": [512], "size": ["1m"]}, "a part of 2048 bytes holds no request of 4096"),
    ],
)
def test_what_cannot_be_done_or_has_no_effect_is_refused(vary: dict[str, list[Any]], expected: str) -> None:
    assert expected in refused({"bs": ["4k"], **vary})


OWN_LOG = iologs.IoLog([iologs.LogRequest(0, "read", 0, 512), iologs.LogRequest(0, "write", 8192, 16384)], "0" * 64)


def with_log(log: iologs.IoLog, vary: dict[str, list[Any]] | None = None, **changes: Any) -> grid.Cell:
    (cell,) = expand(
        {"read_iolog": ["data/traces/x.iolog"], **(vary or {})}, iologs={"data/traces/x.iolog": log}, **changes
    )
    return cell


def test_a_log_says_what_its_cell_does() -> None:
    cell = with_log(OWN_LOG, {"rw": ["randread"], "bs": ["4k"]})
    assert cell.name.startswith("randrw-16k-j1-logx-")
    assert cell.specification["fio"]["rw"] == "randrw"
    assert not fio.only_reads(cell.specification["fio"])
    assert fio.only_reads(with_log(replace(OWN_LOG, requests=OWN_LOG.requests[:1])).specification["fio"])


def test_another_content_of_a_log_is_another_cell() -> None:
    assert with_log(OWN_LOG).name != with_log(replace(OWN_LOG, sha256="1" * 64)).name


def test_a_log_that_needs_more_than_the_file_is_refused() -> None:
    long = replace(OWN_LOG, requests=[iologs.LogRequest(0, "read", 2**30, 512)])
    with pytest.raises(grid.GridError, match=r"x\.iolog goes up to byte 1073742336, and the file .* has 1073741824"):
        with_log(long)
    with pytest.raises(grid.GridError, match="read_iolog and offset do not go together"):
        with_log(OWN_LOG, {"offset": [512]})


def test_a_replay_that_writes_never_counts_as_reading() -> None:
    for replay in ("write-read", "read-write", "write-write"):
        for rw in ("read", "randread", "randrw", "randwrite"):
            assert not fio.only_reads({"rw": rw, "replay": replay})
    assert fio.only_reads({"rw": "randread", "replay": "read-read"})


# ---- On which drives a study runs

TWO_SOURCES: dict[str, kinds.ResolvedEntry] = {
    "theirs": {"kind": "file", "path": "a"},
    "others": {"kind": "file", "path": "b"},
    "own": {"kind": "file", "path": "c"},
}


def drives_of_study(*named: list[str] | None) -> list[list[str]]:
    """Return the drives of each experiment, where these drives are named; `theirs` and `others` are of sources."""
    vary = {"rw": ["read"], "bs": ["4k"]}
    bodies: dict[str, Any] = {
        f"e{number}": {"vary": vary, **({"drives": each} if each else {})} for number, each in enumerate(named)
    }
    study: config.StudyConfig = {"title": "", "source": "", "fio": FIO, "experiments": bodies}
    sources = frozenset({"theirs", "others"})
    conf = replace(BASE, studies={"study": study}, drives=TWO_SOURCES, source_drives=sources)
    return [grid.drives_of_experiment(conf, "study", experiment) for experiment in bodies]


def test_a_drive_of_any_source_runs_only_where_it_is_named_and_your_own_everywhere() -> None:
    assert drives_of_study(["theirs"], ["theirs", "others"], None) == [
        ["theirs", "own"],
        ["theirs", "others", "own"],
        ["own"],
    ]


# ---- Replays of traces

TWINS = config.load_config(fixture_root(), {"drives": ["c400"]})


def replays(root: Path, trace: str, vary: dict[str, list[Any]], base: config.Config = TWINS) -> list[grid.Cell]:
    experiment: config.ExperimentConfig = {
        "vary": vary,
        "replay": {"trace": trace, "phase": "run"},
        "drives": [*base.drives],
    }
    study: config.StudyConfig = {"title": "", "source": "", "fio": FIO, "experiments": {"one": experiment}}
    return list(grid.expand_grid(replace(base, root=root, studies={"study": study}), "study"))


def test_a_cell_replays_the_trace_of_its_levels_and_lasts_as_long_as_that(tmp_path: Path) -> None:
    for name in ("read-512", "write-512"):
        (tmp_path / name).write_text(name)
    cells_of = replays(tmp_path, "{rw}-{bs}", {"rw": ["read", "write"], "bs": ["512"]})
    asked = [cell.specification["replay"] for cell in cells_of]
    assert [each["trace"] for each in asked] == ["read-512", "write-512"]
    assert len({each["sha256"] for each in asked}) == 2
    assert {cell.specification["runtime_ms"] for cell in cells_of} == {0}
    assert {cell.specification["drive"]["file_size_bytes"] for cell in cells_of} == {0}


def test_another_trace_is_another_cell(tmp_path: Path) -> None:
    names_of = set()
    for content in ("one", "two"):
        (tmp_path / "trace").write_text(content)
        names_of |= {cell.name for cell in replays(tmp_path, "trace", {"rw": ["read"], "bs": ["4k"]})}
    assert len(names_of) == 2


@pytest.mark.parametrize(("trace", "told"), [("no", "No such file"), ("{iodepth}", "Valid are {rw}, {bs}")])
def test_a_trace_that_is_not_there_is_told(trace: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(grid.GridError, match=told):
        replays(tmp_path, trace, {"rw": ["read"], "bs": ["4k"]})
