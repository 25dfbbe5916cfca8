"""Published values, and transcriptions that are refused."""

from pathlib import Path

import pytest
import yaml
from support import FIXTURE, ROOT

from iopatterns.analysis.published import load_source_drives, load_values, parse_conditions
from iopatterns.configuration import drive_entries
from iopatterns.configuration.factors import find_factor
from iopatterns.configuration.sources import VALUE_COLUMNS, PublishedError

GOOD = {
    "id": "table9-x-read-4k",
    "place": "Table 9",
    "quantity": "bandwidth",
    "drive": "X",
    "drive_key": "x",
    "rw": "read",
    "bs": "4k",
    "experiment": "",
    "conditions": "",
    "relation": "=",
    "value": "43.20",
    "unit": "MB/s",
    "quote": "43.20 MB/s",
}


def write(folder: Path, *rows: dict[str, str]) -> Path:
    lines = [",".join(VALUE_COLUMNS), *(",".join(row.values()) for row in rows)]
    (folder / "values.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_printed_digits_are_kept(tmp_path: Path) -> None:
    row = load_values(write(tmp_path, GOOD)).iloc[0]
    assert row["printed"] == "43.20"
    assert row["value"] == 43.2


def test_a_number_without_drive_and_workload_is_valid(tmp_path: Path) -> None:
    row = GOOD | {"drive": "", "drive_key": "", "rw": "", "bs": "", "value": "93", "unit": "%", "quote": "near 93%"}
    table = load_values(write(tmp_path, row | {"relation": "~", "quantity": "share"}))
    assert table["bs_bytes"].isna().all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": "4x"}, "value '4x' is not a number"),
        ({"value": "44"}, "does not contain the value 44"),
        ({"value": ""}, "value is empty"),
        ({"place": ""}, "place is empty"),
        ({"rw": "randraed"}, "Did you mean 'randread'?"),
        ({"relation": "about"}, "relation 'about' is unknown. Valid are ="),
        ({"bs": "4 KX"}, "bs: '4 KX'"),
        ({"drive_key": ""}, "drive and drive_key"),
        ({"quote": "43.20 MB/s,"}, "14 fields for 13 columns"),
    ],
)
def test_an_invalid_row_is_named_by_file_and_line(tmp_path: Path, change: dict[str, str], message: str) -> None:
    with pytest.raises(PublishedError) as caught:
        load_values(write(tmp_path, GOOD | {"id": "first"}, GOOD | change))
    assert f"{tmp_path / 'values.csv'}, line 3: " in str(caught.value)
    assert message in str(caught.value)


def test_a_number_may_be_a_word_in_its_quote(tmp_path: Path) -> None:
    row = GOOD | {"value": "10", "unit": "executions", "quote": "an average of ten executions", "quantity": "count"}
    assert load_values(write(tmp_path, row)).iloc[0]["value"] == 10
    with pytest.raises(PublishedError, match="does not contain the value 11"):
        load_values(write(tmp_path, row | {"value": "11"}))


def test_a_duplicate_id_names_both_lines(tmp_path: Path) -> None:
    with pytest.raises(PublishedError, match=r"line 3: line 2 already has the id 'table9-x-read-4k'"):
        load_values(write(tmp_path, GOOD, GOOD))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"id,value\n", "line 1: the columns must be id,place"),
        ((",".join(VALUE_COLUMNS) + "\n").encode(), "there is no value after the header"),
        (b"\xff\xfe\x00", r"values\.csv: not readable"),
        (None, r"values\.csv: there is no such file"),
    ],
)
def test_an_invalid_file_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "values.csv").write_bytes(content)
    with pytest.raises(PublishedError, match=message):
        load_values(tmp_path)


def test_a_study_without_a_folder_has_no_published_values(tmp_path: Path) -> None:
    assert load_values(tmp_path / "none").empty
    assert load_source_drives(tmp_path / "none").empty
    assert list(load_values(tmp_path / "none").columns) == list(load_values(FIXTURE / "data/published/tiny").columns)


MEASURED = GOOD | {"experiment": "initial"}


@pytest.mark.parametrize(
    ("quantity", "unit"),
    [
        ("bandwidth", "MiB/s"),
        ("read iops", "IOPS"),
        ("latency", "us"),
        ("clat p99.9", "us"),
        ("outstanding requests", "requests"),
    ],
)
def test_a_value_of_an_experiment_has_a_quantity_that_can_be_measured(tmp_path: Path, quantity: str, unit: str) -> None:
    row = load_values(write(tmp_path, MEASURED | {"quantity": quantity, "unit": unit})).iloc[0]
    assert (row["quantity"], row["unit"]) == (quantity, unit)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"quantity": "bandwidt"}, "quantity: there is no quantity 'bandwidt'; did you mean 'bandwidth'?"),
        ({"quantity": "capacity"}, "; or leave experiment empty"),
        ({"unit": "KB/s"}, "unit: bandwidth can be in MB/s or MiB/s or KiB/s, not in 'KB/s'"),
        ({"quantity": "latency", "unit": ""}, "unit: latency can be in ms or us or µs or s, not in ''"),
        ({"conditions": "numjobs"}, "conditions 'numjobs' are not levels such as 'numjobs=16; DRA=1'"),
        ({"conditions": "=16"}, "conditions '=16' are not levels"),
        ({"conditions": "numjobs=16; DRA="}, "conditions 'numjobs=16; DRA=' are not levels"),
        ({"conditions": "offset=2x"}, "conditions: offset: '2x' is no size"),
        ({"conditions": "numjobs=4; thinktime=10 ns"}, "conditions: thinktime: '10 ns' is no duration"),
        ({"conditions": "look_ahed=1"}, "conditions: there is no factor 'look_ahed'; did you mean 'look_ahead'?"),
        ({"conditions": "numjobs=4; dra=1"}, "conditions: there is no factor 'dra'; did you mean 'DRA'?"),
    ],
)
def test_a_value_that_no_experiment_can_measure_is_named_by_file_and_line(
    tmp_path: Path, change: dict[str, str], message: str
) -> None:
    with pytest.raises(PublishedError) as caught:
        load_values(write(tmp_path, MEASURED | {"id": "first"}, MEASURED | change))
    assert f"{tmp_path / 'values.csv'}, line 3: " in str(caught.value)
    assert message in str(caught.value)


def test_a_value_without_an_experiment_may_have_any_quantity(tmp_path: Path) -> None:
    row = load_values(write(tmp_path, GOOD | {"quantity": "colour", "unit": "nm", "conditions": "light=day"})).iloc[0]
    assert (row["quantity"], row["unit"]) == ("colour", "nm")


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("", {}),
        ("numjobs=16", {"numjobs": 16}),
        ("numjobs=16; DRA=1", {"numjobs": 16, "DRA": 1}),
        (" numjobs = 16 ;DRA= 1; ", {"numjobs": 16, "DRA": 1}),
        ("scheduler=cfq; offset=1k", {"scheduler": "cfq", "offset": "1k"}),
        ("thinktime=1 ms", {"thinktime": "1 ms"}),
        ("skip=-4k", {"skip": "-4k"}),
    ],
)
def test_conditions_are_levels_by_factor(text: str, levels: dict[str, int | str]) -> None:
    assert parse_conditions(text) == levels


# ---- Drives


def drives(folder: Path, *lines: str) -> Path:
    (folder / "drives.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_a_table_of_drives_may_have_any_further_columns(tmp_path: Path) -> None:
    table = load_source_drives(drives(tmp_path, "table,drive,drive_key,colour,weight", "1,X,x,blue,90 g"))
    row = {"table": "1", "drive": "X", "drive_key": "x", "colour": "blue", "weight": "90 g"}
    assert table.to_dict("records") == [row]
    table = load_source_drives(drives(tmp_path, "table,drive,drive_key", ",X,x"))
    assert list(table) == ["table", "drive", "drive_key"]


@pytest.mark.parametrize("header", ["drive,drive_key", "drive,table,drive_key", "colour,table,drive,drive_key"])
def test_drives_without_the_first_columns_are_refused(tmp_path: Path, header: str) -> None:
    with pytest.raises(PublishedError, match=r"drives\.csv, line 1: the columns must begin with table,drive,drive_key"):
        load_source_drives(drives(tmp_path, header, "X,x,1"))


def test_a_drive_with_too_many_fields_is_named_by_line(tmp_path: Path) -> None:
    with pytest.raises(PublishedError, match=r"drives\.csv, line 3: 4 fields for 3 columns"):
        load_source_drives(drives(tmp_path, "table,drive,drive_key", "1,X,x", "1,Y,y,z"))


# ---- All sources of the project


# Studies with a grid: a source may be recorded before its experiments can be run
STUDIES = sorted(path.stem for path in (ROOT / "config/studies").glob("*.yaml"))


@pytest.mark.parametrize("study", STUDIES)
def test_each_value_of_an_experiment_belongs_to_a_cell_of_the_grid(study: str) -> None:
    grid = yaml.safe_load((ROOT / f"config/studies/{study}.yaml").read_text(encoding="utf-8"))
    for row in load_values(ROOT / "data/published" / study).query("experiment != ''").to_dict("records"):
        body = grid["experiments"][row["experiment"]]
        asked = {"rw": row["rw"], "bs": row["bs"], **parse_conditions(row["conditions"])}
        assert row["drive_key"] in body.get("drives", grid.get("drives", [])), row["id"]
        for factor, level in {factor: level for factor, level in asked.items() if level != ""}.items():
            fixed = {**grid["fio"], **body.get("fio", {})}
            levels = body["vary"].get(factor, [fixed.get(factor)])
            levels = grid["levels"][levels] if isinstance(levels, str) else levels
            assert find_factor(factor).read(level) in [find_factor(factor).read(each) for each in levels], (
                row["id"],
                factor,
            )


@pytest.mark.parametrize("study", STUDIES)
def test_the_drives_of_each_source_are_measured_in_its_study(study: str) -> None:
    grid = yaml.safe_load((ROOT / f"config/studies/{study}.yaml").read_text(encoding="utf-8"))
    named = {drive for body in (grid, *grid["experiments"].values()) for drive in body.get("drives", [])}
    described = drive_entries.read_drive_entries(ROOT).entries
    models = {str(described[name].get("model")) for name in named}  # one drive may be measured in several states
    listed = load_source_drives(ROOT / "data/published" / study)["drive_key"]
    # an experiment may also run on drives of other sources
    assert {str(described[name].get("model")) for name in listed} <= models
