"""Tests of the grid: cells, names, specifications and refusals."""

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


def conf_of(experiments: dict[str, Any], fio: dict[str, Any] = FIO, **changes: Any) -> config.Config:
    study: config.StudyConfig = {"title": "", "source": "", "fio": fio, "experiments": experiments}
    return replace(BASE, studies={"study": study}, **changes)


def expand(vary: dict[str, list[Any]], fio: dict[str, Any] = FIO, **changes: Any) -> list[grid.Cell]:
    return list(grid.expand_grid(conf_of({"one": {"vary": vary}}, fio, **changes), "study"))


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
    assert named == {"initial", "refusing", "depth"}
    assert {name for cell in shipped("ssdsc2kg480g7") for name in cell.experiments} == named


def test_a_drive_that_no_experiment_names_runs_all_experiments() -> None:
    own = {name for cell in shipped("scratch") for name in cell.experiments}
    assert own == set(BASE.studies["tiny"]["experiments"])


def test_a_cell_names_each_experiment_that_contains_it() -> None:
    found = {cell.experiments for cell in shipped("c400") if cell.name.startswith("read-4k-j1-")}
    assert ("initial", "block-size") in found


def test_settings_are_in_specification_and_name() -> None:
    (cell,) = expand({"rw": ["read"], "bs": ["4k"], "DRA": [1], "scheduler": ["none"]})
    assert cell.specification["settings"] == {"DRA": 1, "scheduler": "none"}
    assert cell.name.startswith("read-4k-j1-dra1-none-")
    (plain,) = expand({"rw": ["read"], "bs": ["4k"]})
    assert "settings" not in plain.specification


def test_an_experiment_may_run_longer_than_configured_but_not_shorter() -> None:
    experiments = {
        "long": {"runtime": "20 s", "vary": {"rw": ["write"], "bs": ["4k"]}},
        "short": {"runtime": "1 ms", "vary": {"rw": ["read"], "bs": ["4k"]}},
        "usual": {"vary": {"rw": ["randread"], "bs": ["4k"]}},
    }
    conf = conf_of(experiments, runtime_ms=1000)
    cells_of = {cell.experiments[0]: cell.specification["runtime_ms"] for cell in grid.expand_grid(conf, "study")}
    assert cells_of == {"long": 20_000, "short": 1000, "usual": 1000}


def test_fio_measures_after_the_ramp_time_in_five_intervals() -> None:
    (cell,) = expand({"rw": ["randwrite"], "bs": ["4k"]}, {**FIO, "ramp_time": "4 s"})
    words = fio.fio_command_line(cell.specification, "target", 1, 20_000, "out.json")
    assert {"--ramp_time=4000000us", "--runtime=20000ms", "--iopsavgtime=3800"} <= set(words)


def test_single_cells_may_run_longer_than_the_rest_of_their_experiment() -> None:
    longer = [
        {"runtime": "20 s", "where": {"rw": ["randread"], "bs": ["28 KiB"]}},
        {"runtime": "30 s", "drives": ["c400"]},
        {"runtime": "1 ms"},
    ]
    conf = conf_of({"one": {"runtime": "2 s", "longer": longer, "vary": TWO_BY_TWO}})
    runtimes_ms = {
        cell.name.split("-j1")[0]: cell.specification["runtime_ms"] for cell in grid.expand_grid(conf, "study")
    }
    assert runtimes_ms == {"read-4k": 2000, "read-28k": 2000, "randread-4k": 2000, "randread-28k": 20_000}


def test_an_experiment_leaves_out_cells_with_more_outstanding_requests() -> None:
    levels: Any = {"rw": ["randread"], "bs": ["4k"], "iodepth": [1, 8, 64], "numjobs": [1, 8, 64]}
    fio = {**FIO, "ioengine": "libaio"}
    body: Any = {"most_outstanding": 64, "vary": levels}
    conf = replace(conf_of({"one": body}), studies={"study": {"title": "", "fio": fio, "experiments": {"one": body}}})
    measured = {
        (cell.specification["fio"]["iodepth"], cell.specification["fio"]["numjobs"])
        for cell in grid.expand_grid(conf, "study")
    }
    assert measured == {(1, 1), (1, 8), (1, 64), (8, 1), (8, 8), (64, 1)}


def test_an_experiment_sets_the_file_size_of_simulated_drives_alone() -> None:
    twins = config.load_config(fixture_root(), {"drives": ["c400", "wiscsim", "scratch"]})
    body: Any = {"file_size": "40 GiB", "regions": 4, "vary": {"rw": ["read"], "bs": ["4k"], "numjobs": [4]}}
    entry: Any = {**twins.drives["c400"], "set": {"flash.channels": "4", "capacity.size": "16 GiB"}}
    conf = replace(
        twins,
        drives={**twins.drives, "cut": entry},
        studies={"study": {"title": "", "fio": FIO, "experiments": {"one": body}}},
        source_drives=frozenset(),
    )
    found = {cell.drive: cell.specification for cell in grid.expand_grid(conf, "study")}
    sizes = {drive: specification["drive"]["file_size_bytes"] for drive, specification in found.items()}
    assert sizes == {"c400": 40 * 2**30, "wiscsim": 2**29, "scratch": twins.file_size_bytes, "cut": 2**34}
    assert {drive: 4 * specification["fio"]["size"] for drive, specification in found.items()} == sizes


def test_a_study_may_set_the_interval_of_each_rate() -> None:
    (cell,) = expand({"rw": ["randread"], "bs": ["4k"]}, {**FIO, "iopsavgtime": 500})
    words = fio.fio_command_line(cell.specification, "target", 1, 60_000, "out.json")
    assert [word for word in words if word.startswith("--iopsavgtime")] == ["--iopsavgtime=500"]


def test_regions_give_each_job_its_own_part_of_the_file() -> None:
    experiment: dict[str, Any] = {"regions": 4, "vary": {"rw": ["read"], "bs": ["4k"], "numjobs": [1, 4]}}
    conf = conf_of({"one": experiment}, file_size_bytes=10 * 2**20)
    for cell in grid.expand_grid(conf, "study"):
        assert cell.specification["fio"]["size"] == cell.specification["fio"]["offset_increment"] == 2 * 2**20
    experiment["vary"]["numjobs"] = [8]
    with pytest.raises(grid.GridError, match="8 jobs need 8 regions"):
        list(grid.expand_grid(conf, "study"))


def test_an_added_level_adds_its_cells_and_changes_no_other() -> None:
    more = {**TWO_BY_TWO, "bs": ["4k", "16k", "28k"]}
    added = names(more) - names(TWO_BY_TWO)
    assert names(TWO_BY_TWO) < names(more)
    assert {name.split("/")[-1].rsplit("-", 1)[0] for name in added} == {"read-16k-j1", "randread-16k-j1"}


@pytest.mark.parametrize("size", [4096, "4 KiB"])
def test_another_spelling_of_a_level_gives_the_same_cell(size: object) -> None:
    assert names({"rw": ["read"], "bs": ["4k"]}) == names({"rw": ["read"], "bs": [size]})


def test_order_of_options_does_not_matter() -> None:
    assert names(TWO_BY_TWO, {"direct": 1, "ioengine": "sync"}) == names(TWO_BY_TWO, FIO)


def test_the_same_point_in_two_experiments_is_one_cell() -> None:
    vary = {"rw": ["read"], "bs": ["4k"]}
    conf = conf_of({"one": {"vary": vary}, "two": {"vary": {**vary, "bs": ["4k", "8k"]}}})
    assert len(list(grid.expand_grid(conf, "study"))) == 2


@pytest.mark.parametrize(
    "change",
    [{"runtime_ms": 1}, {"warmup_ms": 1}, {"seed": 1}, {"file_size_bytes": 2**21}],
    ids=lambda change: next(iter(change)),
)
def test_a_value_that_can_change_a_measurement_changes_every_name(change: dict[str, int]) -> None:
    assert not names(TWO_BY_TWO) & names(TWO_BY_TWO, **change)


@pytest.mark.parametrize("change", [{"repetitions": 3}, {"confidence": 0.9}, {"interval": "bca"}])
def test_a_value_that_cannot_change_a_measurement_changes_no_name(change: dict[str, Any]) -> None:
    assert names(TWO_BY_TWO) == names(TWO_BY_TWO, **change)


def test_drive_description_changes_no_name_and_its_path_changes_all() -> None:
    def on(**drive: str) -> set[str]:
        return names(TWO_BY_TWO, drives={"d": {"kind": "file", **drive}})

    assert on(path="a", description="old") == on(path="a", description="new")
    assert not on(path="a") & on(path="b")


def test_queue_depth_is_in_the_name_only_if_it_has_an_effect() -> None:
    vary = {"rw": ["read"], "bs": ["4k"]}
    assert "-q" not in expand(vary, {"ioengine": "sync", "iodepth": 1, "direct": 1})[0].name
    assert expand(vary, {"ioengine": "libaio", "iodepth": 32, "direct": 1})[0].name.startswith("read-4k-q32-j1-")


def test_a_cell_without_a_block_size_is_refused() -> None:
    with pytest.raises(grid.GridError, match=r"study.yaml: experiments.one: no 'bs'"):
        expand({"rw": ["read"]})


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
def test_each_combination_has_its_own_name(rw: list[str], bs: list[int], numjobs: list[int]) -> None:
    found = expand({"rw": rw, "bs": bs, "numjobs": numjobs})
    assert len({cell.folder for cell in found}) == len(found) == len(rw) * len(bs) * len(numjobs)


@given(st.integers(1, 9999), st.integers(1, 9999))
def test_each_repetition_has_its_own_reproducible_seed(one: int, other: int) -> None:
    specification = expand(TWO_BY_TWO)[0].specification
    assert cells.randseed(specification, one) == cells.randseed(dict(reversed(list(specification.items()))), one)
    assert (cells.randseed(specification, one) == cells.randseed(specification, other)) == (one == other)


def test_seeds_do_not_depend_on_the_digest_of_a_model() -> None:
    specification = expand(TWO_BY_TWO)[0].specification
    renewed = {**specification, "drive": {**specification["drive"], "model_digest": "0" * 64}}
    assert cells.specification_digest(renewed) != cells.specification_digest(specification)
    assert cells.randseed(renewed, 1) == cells.randseed(specification, 1)


# ---- Order, position and pauses of requests


def refused(vary: dict[str, list[Any]], fio: dict[str, Any] = FIO, **changes: Any) -> str:
    with pytest.raises(grid.GridError) as caught:
        expand(vary, fio, **changes)
    assert str(caught.value).startswith("config/studies/study.yaml: experiments.one: ")
    return str(caught.value)


def point(vary: dict[str, list[Any]], **changes: Any) -> dict[str, Any]:
    (cell,) = expand({"bs": ["4k"], **vary}, **changes)
    return dict(cell.specification["fio"])


def test_factors_are_in_specification_and_name() -> None:
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


def test_after_an_offset_the_rest_of_the_file_is_used_in_whole_mib() -> None:
    assert point({"rw": ["read"], "offset": [512]})["size"] == BASE.file_size_bytes - 2**20
    assert point({"rw": ["read"], "offset": ["1 MiB"]})["size"] == BASE.file_size_bytes - 2**20
    assert "size" not in point({"rw": ["read"], "offset": [0]})
    assert point({"rw": ["read"], "offset": [512], "size": ["2m"]})["size"] == 2**21


def test_a_computed_size_is_not_in_the_name() -> None:
    (shifted,) = expand({"rw": ["read"], "bs": ["4k"], "offset": [512]})
    assert shifted.name.startswith("read-4k-j1-off512-")


def test_jobs_with_an_offset_increment_stay_within_the_file() -> None:
    found = point({"rw": ["read"], "offset_increment": ["16m"], "numjobs": [4]})
    assert found["size"] == BASE.file_size_bytes - 3 * 2**24


def test_an_offset_within_regions_makes_each_smaller() -> None:
    vary = {"rw": ["read"], "bs": ["4k"], "numjobs": [4]}
    experiment: dict[str, Any] = {"regions": 4, "fio": {"offset": 512}, "vary": vary}
    (cell,) = grid.expand_grid(conf_of({"one": experiment}, file_size_bytes=2**24), "study")
    assert (cell.specification["fio"]["size"], cell.specification["fio"]["offset_increment"]) == (3 * 2**20, 2**22)
    experiment["fio"] = {"size": "1m"}
    with pytest.raises(grid.GridError, match="regions already determines how much"):
        list(grid.expand_grid(conf_of({"one": experiment}), "study"))


@given(
    st.sampled_from([1, 2, 4]),
    st.integers(0, 2**14),
    st.integers(0, 2**12),
    st.one_of(st.none(), st.integers(8, 2**14)),
)
def test_no_cell_reaches_beyond_the_file(numjobs: int, offset: int, increment: int, size: int | None) -> None:
    # otherwise fio would delete the file
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
        ({"rw": ["read"], "skip": ["-1 GiB"]}, "skip -1g leads outside the used part of the file"),
        ({"rw": ["randread"], "partitions": [4]}, "partitions is for sequential requests"),
        ({"rw": ["read"], "percentage_random": [50]}, "percentage_random is for random requests: rw read has none"),
        ({"rw": ["write"], "blockalign": [512]}, "blockalign is for random requests: rw write has none"),
        ({"rw": ["read"], "size": ["2 GiB"]}, "size 2g is larger than the file (config/config.yaml: file_size: 1g)"),
        ({"rw": ["read"], "bs": ["2 GiB"]}, "bs 2g is larger than the file"),
        ({"rw": ["read"], "size": ["1k"]}, "bs 4k is larger than the used part of the file"),
        ({"rw": ["read"], "size": ["1g"], "offset": ["512"]}, "size 1g from offset 512 exceeds the file (1g)"),
        ({"rw": ["read"], "offset": ["1 GiB"]}, "bs 4k is larger than the used part of the file"),
        ({"rw": ["read"], "thinktime": ["1 s"]}, "thinktime 1000000 us is not shorter than a repetition"),
        ({"rw": ["read"], "thinktime_blocks": [4]}, "thinktime_blocks is the number of requests between pauses"),
        ({"rw": ["randread"], "replay": ["write-read"]}, "replay write-read is rw randrw, not randread"),
        ({"rw": ["randrw"], "replay": ["write-write"]}, "replay write-write is rw randwrite, not randrw"),
        ({"rw": ["randrw"], "replay": ["read-read"]}, "replay read-read is rw randread, not randrw"),
        ({"rw": ["randrw"], "replay": ["write-read"], "rwmixread": [50]}, "replay and rwmixread exclude each other"),
        ({"rw": ["read"], "partitions": [4], "skip": ["4k"]}, "partitions and skip exclude each other"),
        ({"rw": ["read"], "partitions": [4], "numjobs": [2]}, "partitions is for one job, not for 2"),
        (
            {"rw": ["read"], "partitions": [512], "size": ["1m"]},
            "a part of 2048 bytes is smaller than a request of 4096",
        ),
    ],
)
def test_an_impossible_or_ineffective_combination_is_refused(vary: dict[str, list[Any]], expected: str) -> None:
    assert expected in refused({"bs": ["4k"], **vary})


OWN_LOG = iologs.IoLog([iologs.LogRequest(0, "read", 0, 512), iologs.LogRequest(0, "write", 8192, 16384)], "0" * 64)


def with_log(log: iologs.IoLog, vary: dict[str, list[Any]] | None = None, **changes: Any) -> grid.Cell:
    (cell,) = expand(
        {"read_iolog": ["data/traces/x.iolog"], **(vary or {})}, iologs={"data/traces/x.iolog": log}, **changes
    )
    return cell


def test_a_log_determines_rw_and_bs_of_its_cell() -> None:
    cell = with_log(OWN_LOG, {"rw": ["randread"], "bs": ["4k"]})
    assert cell.name.startswith("randrw-16k-j1-logx-")
    assert cell.specification["fio"]["rw"] == "randrw"
    assert not fio.only_reads(cell.specification["fio"])
    assert fio.only_reads(with_log(replace(OWN_LOG, requests=OWN_LOG.requests[:1])).specification["fio"])


def test_a_log_with_other_content_gives_another_cell() -> None:
    assert with_log(OWN_LOG).name != with_log(replace(OWN_LOG, sha256="1" * 64)).name


def test_a_log_beyond_the_end_of_the_file_is_refused() -> None:
    long = replace(OWN_LOG, requests=[iologs.LogRequest(0, "read", 2**30, 512)])
    with pytest.raises(grid.GridError, match=r"x\.iolog extends to byte 1073742336, and the file .* has 1073741824"):
        with_log(long)
    with pytest.raises(grid.GridError, match="read_iolog and offset exclude each other"):
        with_log(OWN_LOG, {"offset": [512]})


def test_a_replay_with_writes_is_never_read_only() -> None:
    for replay in ("write-read", "read-write", "write-write"):
        for rw in ("read", "randread", "randrw", "randwrite"):
            assert not fio.only_reads({"rw": rw, "replay": replay})
    assert fio.only_reads({"rw": "randread", "replay": "read-read"})


# ---- Drives of experiments

TWO_SOURCES: dict[str, kinds.ResolvedEntry] = {
    "theirs": {"kind": "file", "path": "a"},
    "others": {"kind": "file", "path": "b"},
    "own": {"kind": "file", "path": "c"},
}


def drives_of_study(*named: list[str] | None) -> list[list[str]]:
    """Return the drives of each experiment, by the drives that it names.

    The drives `theirs` and `others` belong to sources.
    """
    vary = {"rw": ["read"], "bs": ["4k"]}
    bodies = {f"e{number}": {"vary": vary, **({"drives": each} if each else {})} for number, each in enumerate(named)}
    conf = conf_of(bodies, drives=TWO_SOURCES, source_drives=frozenset({"theirs", "others"}))
    return [grid.drives_of_experiment(conf, "study", experiment) for experiment in bodies]


def test_source_drives_run_in_experiments_that_name_them_and_others_in_all() -> None:
    assert drives_of_study(["theirs"], ["theirs", "others"], None) == [
        ["theirs", "own"],
        ["theirs", "others", "own"],
        ["own"],
    ]


# ---- Replays of traces

TWINS = config.load_config(fixture_root(), {"drives": ["c400"]})


def replays(root: Path, trace: str, vary: dict[str, list[Any]], base: config.Config = TWINS) -> list[grid.Cell]:
    experiment = {"vary": vary, "replay": {"trace": trace, "phase": "run"}, "drives": [*base.drives]}
    conf = replace(base, root=root, studies=conf_of({"one": experiment}).studies)
    return list(grid.expand_grid(conf, "study"))


def test_a_cell_replays_the_trace_of_its_levels_for_the_time_of_the_trace(tmp_path: Path) -> None:
    for name in ("read-512", "write-512"):
        (tmp_path / name).write_text(name)
    cells_of = replays(tmp_path, "{rw}-{bs}", {"rw": ["read", "write"], "bs": ["512"]})
    asked = [cell.specification["replay"] for cell in cells_of]
    assert [each["trace"] for each in asked] == ["read-512", "write-512"]
    assert len({each["sha256"] for each in asked}) == 2
    assert {cell.specification["runtime_ms"] for cell in cells_of} == {0}
    assert {cell.specification["drive"]["file_size_bytes"] for cell in cells_of} == {0}


def test_a_trace_with_other_content_gives_another_cell(tmp_path: Path) -> None:
    names_of = set()
    for content in ("one", "two"):
        (tmp_path / "trace").write_text(content)
        names_of |= {cell.name for cell in replays(tmp_path, "trace", {"rw": ["read"], "bs": ["4k"]})}
    assert len(names_of) == 2


@pytest.mark.parametrize(("trace", "message"), [("no", "No such file"), ("{iodepth}", "Valid are {rw}, {bs}")])
def test_a_missing_trace_is_named(trace: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(grid.GridError, match=message):
        replays(tmp_path, trace, {"rw": ["read"], "bs": ["4k"]})
