"""Facts about the published values, and about transcriptions that are refused."""

from pathlib import Path

import pytest

from iopatterns.published import COLUMNS, PublishedError, load, load_drives

SAIF2020 = Path(__file__).parents[2] / "data" / "published" / "saif2020"
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
    lines = [",".join(COLUMNS), *(",".join(row.values()) for row in rows)]
    (folder / "values.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_saif2020_has_the_24_cells_of_tables_2_and_3() -> None:
    table = load(SAIF2020).query("experiment == 'initial'")
    cells = table.groupby(["place", "drive_key"]).size().to_dict()
    assert cells == {
        (place, key): 4 for place in ("Table 2", "Table 3") for key in ("px02ssf020", "px05smb040", "c400")
    }
    assert set(table["bs_bytes"]) == {4096, 28672}
    assert (table["quote"] == table["printed"] + " " + table["unit"]).all()


def test_saif2020_random_reads_of_the_drive_most_affected_are_as_printed() -> None:
    table = load(SAIF2020).set_index("id")
    assert table.loc["table2-px05smb040-read-4k", "value"] == 136
    assert table.loc["table2-px05smb040-randread-4k", "value"] == 40.1
    assert table.loc["table3-c400-randwrite-28k", "value"] == 86


def test_the_digits_stay_as_printed(tmp_path: Path) -> None:
    row = load(write(tmp_path, GOOD)).iloc[0]
    assert row["printed"] == "43.20"
    assert row["value"] == 43.2


def test_a_number_about_no_drive_and_no_workload_is_valid(tmp_path: Path) -> None:
    row = GOOD | {"drive": "", "drive_key": "", "rw": "", "bs": "", "value": "93", "unit": "%", "quote": "near 93%"}
    table = load(write(tmp_path, row | {"relation": "~", "quantity": "share"}))
    assert table["bs_bytes"].isna().all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": "4x"}, "value '4x' is no number"),
        ({"value": "44"}, "does not contain the value 44"),
        ({"value": ""}, "value is empty"),
        ({"place": ""}, "place is empty"),
        ({"rw": "randraed"}, "did you mean 'randread'"),
        ({"relation": "about"}, "relation 'about' is unknown; valid are ="),
        ({"bs": "4 KX"}, "bs: '4 KX'"),
        ({"drive_key": ""}, "drive and drive_key"),
        ({"quote": "43.20 MB/s,"}, "14 fields for 13 columns"),
    ],
)
def test_a_wrong_row_is_named_by_file_and_line(tmp_path: Path, change: dict[str, str], message: str) -> None:
    with pytest.raises(PublishedError) as caught:
        load(write(tmp_path, GOOD | {"id": "first"}, GOOD | change))
    assert f"{tmp_path / 'values.csv'}, line 3: " in str(caught.value)
    assert message in str(caught.value)


def test_a_number_printed_as_a_word_is_found_in_its_quote(tmp_path: Path) -> None:
    row = GOOD | {"value": "10", "unit": "executions", "quote": "an average of ten executions", "quantity": "count"}
    assert load(write(tmp_path, row)).iloc[0]["value"] == 10
    with pytest.raises(PublishedError, match="does not contain the value 11"):
        load(write(tmp_path, row | {"value": "11"}))


def test_saif2020_has_numbers_of_each_section_that_has_any() -> None:
    places = set(load(SAIF2020)["place"])
    sections = {f"Section {number}" for number in ("1", "2", "3", "4", "4.1", "4.2", "4.3", "4.5")}
    assert places == sections | {f"Table {number}" for number in (1, 2, 3, 4)}


def test_saif2020_has_the_six_drives_of_tables_1_and_4() -> None:
    drives = load_drives(SAIF2020)
    assert drives.groupby("table").size().to_dict() == {"1": 3, "4": 3}
    capacities = load(SAIF2020).query("quantity == 'capacity'").set_index("drive")
    assert (capacities["printed"] + " " + capacities["unit"]).to_dict() == drives.set_index("drive")["size"].to_dict()


def test_an_id_given_twice_names_both_lines(tmp_path: Path) -> None:
    with pytest.raises(PublishedError, match=r"line 3: id 'table9-x-read-4k' is already that of line 2"):
        load(write(tmp_path, GOOD, GOOD))


def test_another_head_is_refused(tmp_path: Path) -> None:
    (tmp_path / "values.csv").write_text("id,value\n", encoding="utf-8")
    with pytest.raises(PublishedError, match="line 1: the columns must be id,place"):
        load(tmp_path)


def test_a_file_without_values_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PublishedError, match="no value follows"):
        load(write(tmp_path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PublishedError, match=r"values\.csv: no such file"):
        load(tmp_path / "none")


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "values.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PublishedError, match=r"values\.csv: not readable"):
        load(tmp_path)
