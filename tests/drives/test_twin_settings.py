"""Settings of a twin as a cell asks for them: real sdparm, every outcome, and none of it left behind."""

import json
from pathlib import Path
from typing import Any

import pytest
from support import ROOT

from iopatterns.measuring.cell import measure_cell
from iopatterns.measuring.drives import open_drive
from iopatterns.measuring.drives.error import DriveError
from iopatterns.measuring.tuning import mode_page
from iopatterns.raw import cells, tuning_steps
from iopatterns.raw.metadata_files import is_measured, read_metadata
from iopatterns.twin import models

Spec = Any  # a `records.Specification`, or one that a test has spoilt


def on_twin(model: str, settings: dict[str, Any], rw: str = "read") -> Spec:
    """Return the specification of a short cell of a twin."""
    drive = {"kind": "twin", "model": model, "name": "twin", "file_size_bytes": 64 * 2**20}
    return {
        "protocol": 2,
        "runtime_ms": 50,
        "warmup_ms": 0,
        "seed": 1,
        "drive": {**drive, "model_digest": models.load_model(model).digest},
        "fio": {"rw": rw, "bs": 4096, "ioengine": "sync", "direct": 1, "group_reporting": 1},
        "settings": settings,
    }


def tuned(folder: Path, model: str, **settings: Any) -> list[tuning_steps.Step]:
    drive = open_drive(folder, on_twin(model, settings))
    with drive.hold():
        drive.prepare()
        return drive.tune(settings)


@pytest.fixture(autouse=True)
def in_folder(disk_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run each test in a folder of its own: a twin's state folder lies below the working directory."""
    monkeypatch.chdir(disk_folder)
    return disk_folder


def changed_model(folder: Path, text: str, replacement: str) -> str:
    """Write a copy of px05smb040's model with one thing changed, and return its path."""
    original = (ROOT / "data/twins/px05smb040.yaml").read_text()
    assert original.count(text) == 1
    path = folder / "changed.yaml"
    path.write_text(original.replace(text, replacement))
    return str(path)


@pytest.mark.parametrize("bit", mode_page.MODE_PAGE_BITS)
def test_a_changeable_bit_is_set_and_reads_back(disk_folder: Path, bit: str) -> None:
    wanted = 0 if bit == "WCE" else 1
    (step,) = tuned(disk_folder, "px05smb040", **{bit: wanted})
    assert (step.before, step.after, step.changeable, step.outcome) == (1 - wanted, wanted, True, "changed")
    assert [said["command"][-2] for said in step.exchange] == [f"--get={bit}", f"--set={bit}={wanted}", f"--get={bit}"]


def test_a_bit_that_is_so_already_is_only_read(disk_folder: Path) -> None:
    (step,) = tuned(disk_folder, "px05smb040", DRA=0)
    assert (step.outcome, step.taken, len(step.exchange)) == ("already so", True, 1)


def test_a_bit_whose_mask_says_no_is_not_tried(disk_folder: Path) -> None:
    (step,) = tuned(disk_folder, "mz7km240", DRA=1)
    assert (step.outcome, step.changeable, step.after, step.taken) == ("not changeable", False, 0, False)
    assert all("--set" not in word for said in step.exchange for word in said["command"])


@pytest.mark.parametrize("model", ["ssdsc2bb300g4", "ssdsc2kg480g7"])
def test_a_value_that_is_accepted_and_not_kept_is_ignored(disk_folder: Path, model: str) -> None:
    (step,) = tuned(disk_folder, model, DRA=1)
    assert (step.outcome, step.changeable, step.before, step.after) == ("ignored", True, 0, 0)
    assert step.exchange[1]["exit_status"] == 0


def test_a_value_that_the_drive_rejects_is_refused(disk_folder: Path) -> None:
    model = changed_model(disk_folder, "DRA: {value: 0, behaviour: changeable", "DRA: {value: 0, behaviour: refused")
    (step,) = tuned(disk_folder, model, DRA=1)
    assert (step.outcome, step.after, step.exchange[1]["exit_status"]) == ("refused", 0, 5)


def test_a_drive_without_mode_pages_has_no_such_setting(disk_folder: Path) -> None:
    (step,) = tuned(disk_folder, "nvme-generic", DRA=1)
    assert (step.outcome, step.before, step.after) == ("not applicable", None, None)


def test_a_scheduler_is_the_model_s_own_and_shows_on_the_command_line(disk_folder: Path) -> None:
    specification = on_twin("px05smb040", {"scheduler": "deadline"})
    drive = open_drive(disk_folder, specification)
    with drive.hold():
        drive.prepare()
        (step,) = drive.tune(specification["settings"])
    assert (step.before, step.after, step.outcome) == ("cfq", "deadline", "changed")
    assert "host.scheduler=deadline" in drive.prefix


def iops(raw: Path) -> float:
    import json

    return float(json.loads(raw.read_text()[raw.read_text().index("{") :])["jobs"][0]["read"]["iops"])


def cell(folder: Path, specification: Spec) -> list[Path]:
    return [folder / f"raw/twin/study/read-4k-j1-{cells.specification_digest(specification)[:8]}/01.json"]


def test_read_ahead_that_was_disabled_makes_sequential_reads_slower(disk_folder: Path) -> None:
    rates = {}
    for value in (0, 1):
        specification = on_twin("px05smb040", {"DRA": value})
        raws = cell(disk_folder, specification)
        assert measure_cell(disk_folder, specification, raws) == 1
        rates[value] = iops(raws[0])
    assert rates[1] < 0.5 * rates[0]


def test_settings_do_not_outlive_their_cell(disk_folder: Path) -> None:
    specification = on_twin("px05smb040", {"DRA": 1})
    measure_cell(disk_folder, specification, cell(disk_folder, specification))
    assert not list((disk_folder / "data/raw/.twins").glob("*"))
    (step,) = tuned(disk_folder, "px05smb040", DRA=0)
    assert step.outcome == "already so"


def test_a_cell_whose_setting_is_not_taken_says_so_in_place_of_a_measurement(disk_folder: Path) -> None:
    specification = on_twin("mz7km240", {"DRA": 1})
    raws = cell(disk_folder, specification)
    assert measure_cell(disk_folder, specification, raws) == 0
    sidecar = read_metadata(raws[0])
    assert not is_measured(sidecar)
    assert "command" not in sidecar
    assert sidecar["tuning"][0]["exchange"][0]["stdout"].splitlines()[-1].startswith("DRA")
    assert '"outcome": "not changeable"' in raws[0].read_text()


def test_such_a_cell_is_not_tried_again(disk_folder: Path) -> None:
    specification = on_twin("mz7km240", {"DRA": 1})
    raws = cell(disk_folder, specification)
    measure_cell(disk_folder, specification, raws)
    before = raws[0].stat().st_mtime_ns
    assert measure_cell(disk_folder, specification, raws) == 0
    assert raws[0].stat().st_mtime_ns == before


def test_the_exchange_is_the_same_each_time(disk_folder: Path) -> None:
    first, second = (tuned(disk_folder, "ssdsc2bb300g4", DRA=1)[0].record() for _ in range(2))
    assert first == second


def test_the_queue_of_the_model_is_set_and_the_page_cache_s_is_not_applicable(disk_folder: Path) -> None:
    steps = {step.setting: step for step in tuned(disk_folder, "px05smb040", nr_requests=32, read_ahead_kb=64)}
    assert (steps["nr_requests"].before, steps["nr_requests"].outcome) == (128, "changed")
    assert steps["read_ahead_kb"].outcome == "not applicable"


@pytest.mark.parametrize(("setting", "wanted", "why"), [("look_ahead", 0, "DRA"), ("write_cache", "write back", "WCE")])
def test_a_twin_says_which_setting_it_has_instead(disk_folder: Path, setting: str, wanted: int | str, why: str) -> None:
    (step,) = tuned(disk_folder, "px05smb040", **{setting: wanted})
    assert step.outcome == "not applicable"
    assert why in step.reason


def test_what_a_drives_entry_sets_is_so_for_fio_and_sdparm_and_is_told(disk_folder: Path) -> None:
    specification = on_twin("px05smb040", {"DRA": 1, "scheduler": "none"}, "randread")
    hot = ["controller.throttle=0.5"]
    drive = specification["drive"]
    specification["drive"] = {
        **drive,
        "set": {"controller.throttle": "0.5"},
        "model_digest": models.load_model("px05smb040").overridden(hot).digest,
    }
    asked: dict[str, Spec] = {"cool": {**specification, "drive": drive}, "hot": specification}
    raws = {}
    for name, cell in asked.items():
        folder = f"twin/study/{name}-{cells.specification_digest(cell)[:8]}"
        raws[name] = disk_folder / "data/raw" / folder / "01.json"
        assert measure_cell(disk_folder, cell, [raws[name]]) == 1
    cool, hotter = (read_metadata(raws[name]) for name in ("cool", "hot"))
    assert "set" not in cool["drive"]
    assert hotter["drive"]["set"] == {"controller.throttle": "0.5"}
    words = " ".join(hotter["command"])
    assert "--set controller.throttle=0.5 --set host.scheduler=none -- fio" in words
    assert all("controller.throttle=0.5" in said["command"] for said in hotter["tuning"][0]["exchange"])
    rates = [json.loads(raws[name].read_text())["jobs"][0]["read"]["iops"] for name in ("cool", "hot")]
    assert rates[1] < 0.8 * rates[0]


def test_a_cell_is_not_measured_when_its_digest_is_of_other_values(disk_folder: Path) -> None:
    specification = on_twin("px05smb040", {})
    specification["drive"]["set"] = {"controller.throttle": "0.5"}
    with pytest.raises(DriveError, match="its model file has changed since the run was planned"):
        open_drive(disk_folder, specification).guard()


def test_a_sidecar_has_what_the_twin_counted_in_its_execution_alone(disk_folder: Path) -> None:
    spec = on_twin("px05smb040", {}, "write")
    (first,) = cell(disk_folder, spec)
    raws = [first, first.with_name("02.json")]
    measure_cell(disk_folder, spec, raws)
    for raw in raws:
        (job,) = json.loads(raw.read_text())["jobs"]
        counters = read_metadata(raw)["counters"]
        assert counters["write_commands"] == job["write"]["total_ios"]
        assert counters["write_bytes"] == job["write"]["io_bytes"]
        assert counters["read_commands"] == 0
