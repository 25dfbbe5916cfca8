"""Settings of a simulated drive, set with real sdparm."""

import json
from pathlib import Path
from typing import Any

import pytest
from measurements import Spec, measured, raw_files, twin_cell
from support import ROOT

from iopatterns.measuring.cell import measure_cell
from iopatterns.measuring.drives import open_drive
from iopatterns.measuring.drives.error import DriveError
from iopatterns.measuring.tuning import mode_page
from iopatterns.raw import tuning_steps
from iopatterns.raw.metadata_files import is_measured, read_metadata
from iopatterns.twin import models


def on_twin(model: str, settings: dict[str, Any], rw: str = "read") -> Spec:
    """Return the specification of a short cell of a twin."""
    return {**twin_cell(model, settings, rw=rw, ioengine="sync"), "runtime_ms": 50}


def tuned(folder: Path, model: str, **settings: Any) -> list[tuning_steps.TuningStep]:
    drive = open_drive(folder, on_twin(model, settings))
    with drive.hold():
        drive.prepare()
        return drive.tune(settings)


@pytest.fixture(autouse=True)
def in_folder(disk_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in its own folder, which contains the state folder of a twin."""
    monkeypatch.chdir(disk_folder)


@pytest.mark.parametrize("bit", mode_page.MODE_PAGE_BITS)
def test_a_changeable_bit_is_set_and_reads_back(disk_folder: Path, bit: str) -> None:
    wanted = 0 if bit == "WCE" else 1
    (step,) = tuned(disk_folder, "px05smb040", **{bit: wanted})
    assert (step["before"], step["after"], step["changeable"], step["outcome"]) == (1 - wanted, wanted, True, "changed")
    commands = [result["command"][-2] for result in step["exchange"]]
    assert commands == [f"--get={bit}", f"--set={bit}={wanted}", f"--get={bit}"]


def test_a_bit_with_the_wanted_value_is_only_read(disk_folder: Path) -> None:
    (step,) = tuned(disk_folder, "px05smb040", DRA=0)
    assert (step["outcome"], len(step["exchange"])) == ("already so", 1)


def test_a_bit_that_the_mask_protects_is_not_set(disk_folder: Path) -> None:
    (step,) = tuned(disk_folder, "mz7km240", DRA=1)
    assert (step["outcome"], step["changeable"], step["after"]) == ("not changeable", False, 0)
    assert all("--set" not in word for result in step["exchange"] for word in result["command"])


@pytest.mark.parametrize("model", ["ssdsc2bb300g4", "ssdsc2kg480g7"])
def test_a_value_that_is_accepted_but_not_stored_is_ignored(disk_folder: Path, model: str) -> None:
    (step,) = tuned(disk_folder, model, DRA=1)
    assert (step["outcome"], step["changeable"], step["before"], step["after"]) == ("ignored", True, 0, 0)
    assert step["exchange"][1]["exit_status"] == 0


def test_a_value_that_the_drive_rejects_is_refused(disk_folder: Path) -> None:
    original = (ROOT / "data/twins/px05smb040.yaml").read_text()
    changeable = "DRA: {value: 0, behaviour: changeable"
    assert original.count(changeable) == 1
    model = disk_folder / "refusing.yaml"
    model.write_text(original.replace(changeable, "DRA: {value: 0, behaviour: refused"))
    (step,) = tuned(disk_folder, str(model), DRA=1)
    assert (step["outcome"], step["after"], step["exchange"][1]["exit_status"]) == ("refused", 0, 5)


def test_a_failure_of_the_simulation_is_no_refusal_of_the_drive(disk_folder: Path) -> None:
    drive: Any = open_drive(disk_folder, on_twin("px05smb040", {"DRA": 1}))
    with drive.hold():
        drive.prepare()
        (drive._state / "model").mkdir(parents=True)  # cannot be written, as on a full disk
        with pytest.raises(DriveError, match=r"DRA could not be set: twin: error: .*model"):
            drive.tune({"DRA": 1})


def test_a_drive_does_not_forget_settings_that_cannot_be_read(disk_folder: Path) -> None:
    drive: Any = open_drive(disk_folder, on_twin("px05smb040", {"DRA": 1}))
    with drive.hold():
        drive.prepare()
        drive.tune({"DRA": 1})
        settings = drive._state / "mode-pages"
        settings.unlink()
        settings.symlink_to("mode-pages")
        with pytest.raises(DriveError, match=r"mode-pages: Too many levels of symbolic links"):
            drive.tune({"DRA": 0})


def test_a_drive_without_mode_pages_has_no_such_setting(disk_folder: Path) -> None:
    (step,) = tuned(disk_folder, "nvme-generic", DRA=1)
    assert (step["outcome"], step["before"], step["after"]) == ("not applicable", None, None)


def test_a_scheduler_is_a_parameter_of_the_model_on_the_command_line(disk_folder: Path) -> None:
    specification = on_twin("px05smb040", {"scheduler": "deadline"})
    drive = open_drive(disk_folder, specification)
    with drive.hold():
        drive.prepare()
        (step,) = drive.tune(specification["settings"])
    assert (step["before"], step["after"], step["outcome"]) == ("cfq", "deadline", "changed")
    assert "host.scheduler=deadline" in drive.prefix


def read_iops(raw: Path) -> float:
    return float(json.loads(raw.read_text())["jobs"][0]["read"]["iops"])


def test_disabled_read_ahead_makes_sequential_reads_slower(disk_folder: Path) -> None:
    enabled, disabled = (read_iops(measured(disk_folder, on_twin("px05smb040", {"DRA": dra}))[0]) for dra in (0, 1))
    assert disabled < 0.5 * enabled


def test_settings_end_with_their_cell(disk_folder: Path) -> None:
    measured(disk_folder, on_twin("px05smb040", {"DRA": 1}))
    assert not list((disk_folder / "data/raw/.twins").glob("*"))
    (step,) = tuned(disk_folder, "px05smb040", DRA=0)
    assert step["outcome"] == "already so"


def test_a_cell_whose_setting_has_no_effect_contains_the_reason_and_is_not_tried_again(disk_folder: Path) -> None:
    specification = on_twin("mz7km240", {"DRA": 1})
    raws = raw_files(disk_folder, specification)
    assert measure_cell(disk_folder, specification, raws) == 0
    metadata = read_metadata(raws[0])
    assert not is_measured(metadata)
    assert "command" not in metadata
    assert metadata["tuning"][0]["exchange"][0]["stdout"].splitlines()[-1].startswith("DRA")
    assert '"outcome": "not changeable"' in raws[0].read_text()
    before_ns = raws[0].stat().st_mtime_ns
    assert measure_cell(disk_folder, specification, raws) == 0
    assert raws[0].stat().st_mtime_ns == before_ns


def test_tuning_steps_are_reproducible(disk_folder: Path) -> None:
    first, second = (tuned(disk_folder, "ssdsc2bb300g4", DRA=1) for _ in range(2))
    assert first == second


def test_a_twin_has_nr_requests_but_no_read_ahead_of_the_kernel(disk_folder: Path) -> None:
    steps = {step["setting"]: step for step in tuned(disk_folder, "px05smb040", nr_requests=32, read_ahead_kb=64)}
    assert (steps["nr_requests"]["before"], steps["nr_requests"]["outcome"]) == (128, "changed")
    assert steps["read_ahead_kb"]["outcome"] == "not applicable"


@pytest.mark.parametrize(("setting", "wanted", "why"), [("look_ahead", 0, "DRA"), ("write_cache", "write back", "WCE")])
def test_the_reason_names_the_setting_to_use_instead(
    disk_folder: Path, setting: str, wanted: int | str, why: str
) -> None:
    (step,) = tuned(disk_folder, "px05smb040", **{setting: wanted})
    assert step["outcome"] == "not applicable"
    assert why in step["reason"]


def test_parameters_of_a_drives_entry_apply_to_fio_and_sdparm(disk_folder: Path) -> None:
    cool = on_twin("px05smb040", {"DRA": 1, "scheduler": "none"}, "randread")
    digest = models.load_model("px05smb040").overridden(["controller.throttle=0.5"]).digest
    hot = {**cool, "drive": {**cool["drive"], "set": {"controller.throttle": "0.5"}, "model_digest": digest}}
    (cool_raw,), (hot_raw,) = measured(disk_folder, cool), measured(disk_folder, hot)
    assert "set" not in read_metadata(cool_raw)["drive"]
    metadata = read_metadata(hot_raw)
    assert metadata["drive"]["set"] == {"controller.throttle": "0.5"}
    assert "--set controller.throttle=0.5 --set host.scheduler=none -- fio" in " ".join(metadata["command"])
    assert all("controller.throttle=0.5" in result["command"] for result in metadata["tuning"][0]["exchange"])
    assert read_iops(hot_raw) < 0.8 * read_iops(cool_raw)


def test_a_digest_of_other_parameters_is_refused(disk_folder: Path) -> None:
    specification = on_twin("px05smb040", {})
    specification["drive"]["set"] = {"controller.throttle": "0.5"}
    with pytest.raises(DriveError, match="its model file has changed since the run was planned"):
        open_drive(disk_folder, specification).guard()


def test_a_file_beyond_the_written_part_of_the_drive_is_refused(disk_folder: Path) -> None:
    specification = on_twin("c400", {})
    for file_size_bytes, extent in ((41 * 2**30, "40 GiB"), (2**20, "512 KiB")):
        digest = models.load_model("c400").overridden([f"ftl.initial_extent={extent}"]).digest
        specification["drive"] |= {"set": {"ftl.initial_extent": extent}, "model_digest": digest}
        specification["drive"]["file_size_bytes"] = file_size_bytes
        with pytest.raises(DriveError, match=f"fewer than the {file_size_bytes} of file_size. Make file_size smaller"):
            open_drive(disk_folder, specification).guard()
    specification["drive"]["file_size_bytes"] = 2**19
    open_drive(disk_folder, specification).guard()


def test_counters_in_metadata_are_of_one_repetition_only(disk_folder: Path) -> None:
    for raw in measured(disk_folder, on_twin("px05smb040", {}, "write"), 2):
        (job,) = json.loads(raw.read_text())["jobs"]
        counters = read_metadata(raw)["counters"]
        assert counters["write_commands"] == job["write"]["total_ios"]
        assert counters["write_bytes"] == job["write"]["io_bytes"]
        assert counters["read_commands"] == 0
