"""The grid: what a cell's name and hash depend on, and what they do not."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT

from iopatterns import cells, config, grid

BASE = config.load(ROOT, {"drives": ["scratch"]})
FIO = {"ioengine": "sync", "direct": 1}


def expand(vary: dict[str, list[Any]], fio: dict[str, Any] = FIO, **changes: Any) -> list[grid.Cell]:
    study = {"title": "", "source": "", "fio": fio, "experiments": {"one": {"vary": vary}}}
    return list(grid.expand(replace(BASE, studies={"study": study}, **changes), "study"))


def names(*arguments: Any, **changes: Any) -> set[str]:
    return {cell.folder for cell in expand(*arguments, **changes)}


TWO_BY_TWO = {"rw": ["read", "randread"], "bs": ["4k", "28k"]}


def test_all_combinations_of_levels_are_cells() -> None:
    readable = [cell.name.rsplit("-", 1)[0] for cell in expand(TWO_BY_TWO)]
    assert readable == ["read-4k-j1", "read-28k-j1", "randread-4k-j1", "randread-28k-j1"]


def shipped(*drives: str) -> list[grid.Cell]:
    return list(grid.expand(config.load(ROOT, {"drives": list(drives)}), "saif2020"))


def test_an_experiment_runs_on_the_drives_that_it_names() -> None:
    found = {cell.experiments for cell in shipped("px02ssf020", "c400")}
    assert found == {("initial",)}
    assert {cell.experiments for cell in shipped("mz7km240")} == {("refusing",)}


def test_a_drive_that_no_experiment_names_gets_the_whole_study() -> None:
    own = {name for cell in shipped("scratch") for name in cell.experiments}
    assert own == set(BASE.studies["saif2020"]["experiments"])


def test_a_cell_names_each_experiment_that_asks_for_it() -> None:
    found = {cell.experiments for cell in shipped("px05smb040") if cell.name.startswith("read-4k-j1-")}
    assert ("initial", "block-size") in found
    assert ("read-ahead", "toggle-dra") in found


def test_settings_stand_in_specification_and_name() -> None:
    (cell,) = expand({"rw": ["read"], "bs": ["4k"], "DRA": [1], "scheduler": ["none"]})
    assert cell.specification["settings"] == {"DRA": 1, "scheduler": "none"}
    assert cell.name.startswith("read-4k-j1-dra1-none-")
    (plain,) = expand({"rw": ["read"], "bs": ["4k"]})
    assert "settings" not in plain.specification


def test_regions_give_each_job_a_part_of_the_file_of_its_own() -> None:
    experiment = {"regions": 4, "vary": {"rw": ["read"], "bs": ["4k"], "numjobs": [1, 4]}}
    study = {"title": "", "source": "", "fio": FIO, "experiments": {"one": experiment}}
    conf = replace(BASE, studies={"study": study}, file_size_bytes=10 * 2**20)
    for cell in grid.expand(conf, "study"):
        assert cell.specification["fio"]["size"] == cell.specification["fio"]["offset_increment"] == 2 * 2**20
    experiment["vary"]["numjobs"] = [8]  # type: ignore[index]
    with pytest.raises(grid.GridError, match="8 jobs need as many regions"):
        list(grid.expand(conf, "study"))


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
    experiments = {
        "one": {"vary": {"rw": ["read"], "bs": ["4k"]}},
        "two": {"vary": {"rw": ["read"], "bs": ["4k", "8k"]}},
    }
    study = {"title": "", "source": "", "fio": FIO, "experiments": experiments}
    assert len(list(grid.expand(replace(BASE, studies={"study": study}), "study"))) == 2


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
    sync, async_ = ({"ioengine": engine, "iodepth": 32, "direct": 1} for engine in ("sync", "libaio"))
    assert "-q" not in expand({"rw": ["read"], "bs": ["4k"]}, sync)[0].name
    assert expand({"rw": ["read"], "bs": ["4k"]}, async_)[0].name.startswith("read-4k-q32-j1-")


def test_cell_without_a_block_size_is_refused() -> None:
    with pytest.raises(grid.GridError, match=r"study.yaml: experiments.one: no 'bs'"):
        expand({"rw": ["read"]})


def test_block_larger_than_the_file_is_refused() -> None:
    with pytest.raises(grid.GridError, match="bs 2m is larger than the file"):
        expand({"rw": ["read"], "bs": ["2m"]}, file_size_bytes=2**20)


def test_study_can_have_its_own_number_of_repetitions() -> None:
    study = {**BASE.studies["saif2020"], "repetitions": 3}
    assert grid.repetitions(BASE, "saif2020") == 10
    assert grid.repetitions(replace(BASE, studies={"saif2020": study}), "saif2020") == 3


@given(
    st.lists(st.sampled_from(["read", "randread", "write", "randrw"]), min_size=1, unique=True),
    st.lists(st.integers(1, 2**20), min_size=1, max_size=6, unique=True),
    st.lists(st.integers(1, 64), min_size=1, max_size=4, unique=True),
)
def test_names_are_as_many_as_combinations(rw: list[str], bs: list[int], numjobs: list[int]) -> None:
    found = expand({"rw": rw, "bs": bs, "numjobs": numjobs})
    assert len({cell.folder for cell in found}) == len(found) == len(rw) * len(bs) * len(numjobs)


@given(st.integers(1, 9999), st.integers(1, 9999))
def test_each_execution_has_its_own_seed_and_keeps_it(one: int, other: int) -> None:
    specification = expand(TWO_BY_TWO)[0].specification
    assert cells.randseed(specification, one) == cells.randseed(dict(reversed(specification.items())), one)
    assert (cells.randseed(specification, one) == cells.randseed(specification, other)) == (one == other)
