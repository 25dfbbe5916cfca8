"""Unmodified sdparm and sg3-utils on simulated drives: which settings can change, and their effect."""

from pathlib import Path

import pytest
from twins import command, fio, mean_us, run

from iopatterns import twin


def shown(state: Path, field: str, model: str = "px05smb040") -> tuple[int, str]:
    """Return the value of a field, and ``y`` if sdparm shows it as changeable, else ``n``."""
    printed = run(state, "sdparm", f"--get={field}", "--long", "{drive}", model=model).stdout
    words = next(line for line in printed.splitlines() if line.split()[:1] == [field]).split()
    return int(words[1]), words[words.index("[cha:") + 1].rstrip(",")


def sdparm(state: Path, *words: str, model: str = "px05smb040") -> bool:
    """Return whether sdparm succeeds."""
    return run(state, "sdparm", *words, "{drive}", model=model).returncode == 0


def read_mean_us(state: Path, rw: str) -> float:
    return mean_us(fio(state, f"--rw={rw}", "--ioengine=psync", "--time_based=1", "--runtime=100ms"))


def test_without_read_ahead_sequential_reads_are_as_slow_as_random_reads(tmp_path: Path) -> None:
    before = read_mean_us(tmp_path, "read")
    random = read_mean_us(tmp_path, "randread")
    assert sdparm(tmp_path, "--set=DRA=1")
    assert shown(tmp_path, "DRA") == (1, "y")
    # the read time differs between pages, and the two runs read different pages
    assert read_mean_us(tmp_path, "read") == pytest.approx(random, rel=0.03)
    assert before < 0.5 * random


@pytest.mark.parametrize("setting", ["RCD=1", "WCE=0", "FSW=1"])
def test_other_switches_do_not_change_reads(tmp_path: Path, setting: str) -> None:
    before = read_mean_us(tmp_path, "read")
    assert sdparm(tmp_path, f"--set={setting}")
    field, value = setting.split("=")
    assert shown(tmp_path, field)[0] == int(value)
    assert read_mean_us(tmp_path, "read") == before


def test_a_power_cycle_restores_saved_settings_and_a_reset_the_factory_settings(tmp_path: Path) -> None:
    for options, command_word, expected in (
        (["--set=DRA=1"], "power-cycle", 0),
        (["--set=DRA=1", "--save"], "power-cycle", 1),
        ([], "reset", 0),
    ):
        assert not options or sdparm(tmp_path, *options)
        assert command(command_word, "px05smb040", "--state", str(tmp_path)).returncode == 0
        assert shown(tmp_path, "DRA")[0] == expected


@pytest.mark.parametrize(
    ("model", "mask", "accepts"),
    [("mz7km240", "n", False), ("ssdsc2bb300g4", "y", True), ("ssdsc2kg480g7", "y", True), ("refusing", "y", False)],
)
def test_read_ahead_of_some_drives_cannot_be_changed(model: str, mask: str, accepts: bool, tmp_path: Path) -> None:
    if model == "refusing":  # shows the field as changeable, but refuses to change it
        text = twin.load_model("px05smb040").path.read_text()
        model = str(tmp_path / "refusing.yaml")
        text = text.replace("DRA: {value: 0, behaviour: changeable", "DRA: {value: 0, behaviour: refused")
        Path(model).write_text(text)
    state = tmp_path / "state"
    assert shown(state, "DRA", model) == (0, mask)
    assert sdparm(state, "--set=DRA=1", model=model) == accepts
    assert shown(state, "DRA", model) == (0, mask)


def test_a_drive_that_cannot_save_settings_refuses_to_save(tmp_path: Path) -> None:
    assert not sdparm(tmp_path, "--set=WCE=0", "--save", model="c400")
    assert sdparm(tmp_path, "--set=WCE=0", model="c400")
    assert shown(tmp_path, "WCE", "c400")[0] == 0


@pytest.mark.parametrize(
    ("model", "words", "expected"),
    [
        ("px05smb040", ["sg_inq"], "{identity[product]}"),
        ("px05smb040", ["sg_inq"], "{identity[vendor]}"),
        ("px05smb040", ["sg_vpd", "--page=sn"], "{identity[serial]}"),
        ("px05smb040", ["sg_vpd", "--page=bdc"], "Non-rotating"),
        ("hard-disk", ["sg_vpd", "--page=bdc", "--hex"], f"{7200 >> 8:02x} {7200 & 255:02x}"),
        ("px05smb040", ["sg_readcap", "--long"], "{sectors}"),
        ("px05smb040", ["sg_turs"], ""),
        ("px05smb040", ["sg_modes", "--all"], ""),
    ],
)
def test_scsi_commands_report_the_model(model: str, words: list[str], expected: str, tmp_path: Path) -> None:
    drive = twin.load_model(model)
    done = run(tmp_path, *words, "{drive}", model=model)
    assert done.returncode == 0, done.stderr
    assert expected.format(identity=drive.identity, sectors=drive.size_bytes // 512) in done.stdout


def test_an_nvme_drive_refuses_scsi_commands(tmp_path: Path) -> None:
    assert not sdparm(tmp_path, "--get=DRA", model="nvme-generic")


def test_scsi_commands_that_transfer_data_are_refused(tmp_path: Path) -> None:
    assert run(tmp_path, "sg_dd", "if={drive}", "of=/dev/null", "count=8", "bs=512", "blk_sgio=1").returncode != 0
