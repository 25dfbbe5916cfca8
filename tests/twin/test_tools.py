"""Unmodified sdparm and sg3-utils on twins: what can be changed, what cannot, and what a change does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from iopatterns import twin

TWIN = [sys.executable, "-m", "iopatterns.twin"]


def on(model: str, state: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TWIN, "run", model, "--state", str(state), "--", *command], capture_output=True, text=True, check=False
    )


def shown(model: str, state: Path, field: str) -> tuple[int, str]:
    """Return a field's value and whether sdparm shows it as changeable: ``(0, "y")``."""
    said = on(model, state, "sdparm", f"--get={field}", "--long", "{drive}")
    words = next(line for line in said.stdout.splitlines() if line.split()[:1] == [field]).split()
    return int(words[1]), words[words.index("[cha:") + 1].rstrip(",")


def read_mean_us(model: str, state: Path, rw: str) -> float:
    done = on(
        model, state, "fio", "--name=a", "--filename={drive}", "--size=256m", "--bs=4k", f"--rw={rw}", "--direct=1",
        "--time_based", "--runtime=100ms", "--output-format=json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return float(json.loads(done.stdout)["jobs"][0]["read"]["lat_ns"]["mean"] / 1e3)


def test_disabling_read_ahead_makes_a_sequential_reader_as_slow_as_a_random_one(tmp_path: Path) -> None:
    before = read_mean_us("px05smb040", tmp_path, "read")
    random = read_mean_us("px05smb040", tmp_path, "randread")
    assert on("px05smb040", tmp_path, "sdparm", "--set=DRA=1", "{drive}").returncode == 0
    assert shown("px05smb040", tmp_path, "DRA") == (1, "y")
    # pages take different times to read, and the two runs read different ones
    assert read_mean_us("px05smb040", tmp_path, "read") == pytest.approx(random, rel=0.03)
    assert before < 0.5 * random


@pytest.mark.parametrize("setting", ["RCD=1", "WCE=0", "FSW=1"])
def test_the_other_switches_change_nothing_of_reading(tmp_path: Path, setting: str) -> None:
    before = read_mean_us("px05smb040", tmp_path, "read")
    assert on("px05smb040", tmp_path, "sdparm", f"--set={setting}", "{drive}").returncode == 0
    field, value = setting.split("=")
    assert shown("px05smb040", tmp_path, field)[0] == int(value)
    assert read_mean_us("px05smb040", tmp_path, "read") == before


def test_a_setting_that_is_not_saved_is_lost_with_the_power_and_a_saved_one_stays(tmp_path: Path) -> None:
    cycle = [*TWIN, "power-cycle", "px05smb040", "--state", str(tmp_path)]
    on("px05smb040", tmp_path, "sdparm", "--set=DRA=1", "{drive}")
    subprocess.run(cycle, check=True, capture_output=True)
    assert shown("px05smb040", tmp_path, "DRA")[0] == 0
    on("px05smb040", tmp_path, "sdparm", "--set=DRA=1", "--save", "{drive}")
    subprocess.run(cycle, check=True, capture_output=True)
    assert shown("px05smb040", tmp_path, "DRA")[0] == 1
    subprocess.run([*TWIN, "reset", "px05smb040", "--state", str(tmp_path)], check=True, capture_output=True)
    assert shown("px05smb040", tmp_path, "DRA")[0] == 0


def test_on_the_samsung_drive_read_ahead_can_only_be_read(tmp_path: Path) -> None:
    assert shown("mz7km240", tmp_path, "DRA") == (0, "n")
    assert on("mz7km240", tmp_path, "sdparm", "--set=DRA=1", "{drive}").returncode != 0
    assert shown("mz7km240", tmp_path, "DRA") == (0, "n")


@pytest.mark.parametrize("model", ["ssdsc2bb300g4", "ssdsc2kg480g7"])
def test_on_the_intel_drives_it_seems_changeable_and_does_not_change(tmp_path: Path, model: str) -> None:
    assert shown(model, tmp_path, "DRA") == (0, "y")
    assert on(model, tmp_path, "sdparm", "--set=DRA=1", "{drive}").returncode == 0
    assert shown(model, tmp_path, "DRA") == (0, "y")


def test_a_bit_may_be_refused_although_the_mask_says_that_it_changes(tmp_path: Path) -> None:
    text = Path(twin.load_model("px05smb040").path).read_text()
    model = tmp_path / "refusing.yaml"
    model.write_text(text.replace("DRA: {value: 0, behaviour: changeable", "DRA: {value: 0, behaviour: refused"))
    assert shown(str(model), tmp_path, "DRA") == (0, "y")
    refused = on(str(model), tmp_path, "sdparm", "--set=DRA=1", "{drive}")
    assert refused.returncode != 0
    assert shown(str(model), tmp_path, "DRA") == (0, "y")


def test_saving_is_refused_where_nothing_can_be_saved(tmp_path: Path) -> None:
    assert on("c400", tmp_path, "sdparm", "--set=WCE=0", "--save", "{drive}").returncode != 0
    assert on("c400", tmp_path, "sdparm", "--set=WCE=0", "{drive}").returncode == 0
    assert shown("c400", tmp_path, "WCE")[0] == 0


def test_inquiry_and_capacity_are_the_model_s(tmp_path: Path) -> None:
    model = twin.load_model("px05smb040")
    inquiry = on("px05smb040", tmp_path, "sg_inq", "{drive}").stdout
    assert model.identity["product"] in inquiry
    assert model.identity["vendor"] in inquiry
    assert model.identity["serial"] in on("px05smb040", tmp_path, "sg_vpd", "--page=sn", "{drive}").stdout
    assert "Non-rotating" in on("px05smb040", tmp_path, "sg_vpd", "--page=bdc", "{drive}").stdout
    page = on("hard-disk", tmp_path / "disk", "sg_vpd", "--page=bdc", "--hex", "{drive}").stdout
    assert f"{7200 >> 8:02x} {7200 & 255:02x}" in page
    capacity = on("px05smb040", tmp_path, "sg_readcap", "--long", "{drive}").stdout
    assert str(model.size_bytes // 512) in capacity
    assert on("px05smb040", tmp_path, "sg_turs", "{drive}").returncode == 0
    assert on("px05smb040", tmp_path, "sg_modes", "--all", "{drive}").returncode == 0


def test_an_nvme_drive_speaks_no_scsi(tmp_path: Path) -> None:
    assert on("nvme-generic", tmp_path, "sdparm", "--get=DRA", "{drive}").returncode != 0


def test_data_through_scsi_commands_are_refused(tmp_path: Path) -> None:
    refused = on("px05smb040", tmp_path, "sg_dd", "if={drive}", "of=/dev/null", "count=8", "bs=512", "blk_sgio=1")
    assert refused.returncode != 0
