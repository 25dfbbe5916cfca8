"""The published values of RR-9319 as they were copied from it."""

from support import ROOT

from iopatterns.analysis.published import load_source_drives, load_values

SAIF2020 = ROOT / "data/published/saif2020"


def test_there_are_the_24_cells_of_tables_2_and_3() -> None:
    table = load_values(SAIF2020).query("experiment == 'initial'")
    cells = table.groupby(["place", "drive_key"]).size().to_dict()
    assert cells == {
        (place, key): 4 for place in ("Table 2", "Table 3") for key in ("px02ssf020", "px05smb040", "c400")
    }
    assert set(table["bs_bytes"]) == {4096, 28672}
    assert (table["quote"] == table["printed"] + " " + table["unit"]).all()


def test_random_reads_of_the_drive_most_affected_are_as_printed() -> None:
    table = load_values(SAIF2020).set_index("id")
    assert table.loc["table2-px05smb040-read-4k", "value"] == 136
    assert table.loc["table2-px05smb040-randread-4k", "value"] == 40.1
    assert table.loc["table3-c400-randwrite-28k", "value"] == 86


def test_there_are_numbers_of_each_section_that_has_any() -> None:
    places = set(load_values(SAIF2020)["place"])
    sections = {f"Section {number}" for number in ("1", "2", "3", "4", "4.1", "4.2", "4.3", "4.5")}
    assert places == sections | {f"Table {number}" for number in (1, 2, 3, 4)}


def test_there_are_the_six_drives_of_tables_1_and_4() -> None:
    drives = load_source_drives(SAIF2020)
    assert drives.groupby("table").size().to_dict() == {"1": 3, "4": 3}
    capacities = load_values(SAIF2020).query("quantity == 'capacity'").set_index("drive")
    assert (capacities["printed"] + " " + capacities["unit"]).to_dict() == drives.set_index("drive")["size"].to_dict()
