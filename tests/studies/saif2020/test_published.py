"""The transcription of the published values of RR-9319."""

from support import ROOT

from iopatterns.analysis.published import load_source_drives, load_values

SAIF2020 = ROOT / "data/published/saif2020"


def test_tables_2_and_3_have_24_cells() -> None:
    table = load_values(SAIF2020).query("experiment == 'initial'")
    cells = table.groupby(["place", "drive_key"]).size().to_dict()
    assert cells == {
        (place, key): 4 for place in ("Table 2", "Table 3") for key in ("px02ssf020", "px05smb040", "c400")
    }
    assert set(table["bs_bytes"]) == {4096, 28672}
    assert (table["quote"] == table["printed"] + " MB/s").all()
    assert set(table["unit"]) == {"MiB/s"}  # what fio 2.16 prints as MB/s


def test_values_of_tables_2_and_3_are_as_printed() -> None:
    table = load_values(SAIF2020).set_index("id")["value"]
    ids = ["table2-px05smb040-read-4k", "table2-px05smb040-randread-4k", "table3-c400-randwrite-28k"]
    assert table[ids].to_list() == [136, 40.1, 86]


def test_all_sections_with_numbers_have_values() -> None:
    places = set(load_values(SAIF2020)["place"])
    sections = {f"Section {number}" for number in ("1", "2", "3", "4", "4.1", "4.2", "4.3", "4.5")}
    assert places == sections | {f"Table {number}" for number in (1, 2, 3, 4)}


def test_tables_1_and_4_have_six_drives() -> None:
    drives = load_source_drives(SAIF2020)
    assert drives.groupby("table").size().to_dict() == {"1": 3, "4": 3}
    capacities = load_values(SAIF2020).query("quantity == 'capacity'").set_index("drive")
    assert (capacities["printed"] + " " + capacities["unit"]).to_dict() == drives.set_index("drive")["size"].to_dict()
