"""A twin's settings and parameters by `twin run --set`, sdparm and power, together and at the same time."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from twins import command

from iopatterns import twin

READ = ["fio", "--name=a", "--filename={drive}", "--size=64m", "--bs=4k", "--direct=1", "--time_based"]
READ += ["--runtime=20ms", "--output-format=json"]


def mean_us(model: str, state: Path, rw: str, *options: str) -> float:
    done = command("run", model, "--state", str(state), *options, "--", *READ, f"--rw={rw}")
    assert done.returncode == 0, done.stderr
    job = json.loads(done.stdout)["jobs"][0]
    return float(job["write" if "write" in rw else "read"]["lat_ns"]["mean"] / 1e3)


@pytest.mark.parametrize(
    ("model", "switch", "rw"),
    [
        ("px05smb040", "read_ahead.enabled", "read"),
        ("c400", "write_buffer.enabled", "write"),
        ("hard-disk", "disk.write_cache_enabled", "write"),
    ],
)
def test_a_switch_given_with_set_acts_although_the_mode_page_has_it_too(
    tmp_path: Path, model: str, switch: str, rw: str
) -> None:
    on = mean_us(model, tmp_path, rw)
    assert mean_us(model, tmp_path, rw, "--set", f"{switch}=off") > 2 * on
    assert mean_us(model, tmp_path, rw, "--set", f"{switch}=on") == on


def test_sdparm_s_change_holds_beside_a_switch_given_with_set(tmp_path: Path) -> None:
    before = mean_us("px05smb040", tmp_path, "read")
    drive = ("run", "px05smb040", "--state", str(tmp_path), "--", "sdparm")
    assert command(*drive, "--set=DRA=1", "{drive}").returncode == 0
    assert mean_us("px05smb040", tmp_path, "read", "--set", "read_ahead.enabled=on") > 2 * before
    assert command(*drive, "--set=DRA=0", "{drive}").returncode == 0
    assert mean_us("px05smb040", tmp_path, "read") == before


@pytest.mark.slow
def test_runs_at_the_same_time_each_get_their_own_drive(tmp_path: Path) -> None:
    expected = {"20us": (30, 90), "500us": (500, 600), "1ms": (1000, 1150)}

    def run(time: str) -> bool:
        low, high = expected[time]
        return low < mean_us("px05smb040", tmp_path, "randread", "--set", f"flash.read_time={time}") < high

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(run, [*expected] * 8))


@pytest.mark.slow
def test_counters_of_runs_at_the_same_time_do_not_mix(tmp_path: Path) -> None:
    def run(number: int) -> int:
        file = tmp_path / f"{number}.csv"
        mean_us("px05smb040", tmp_path / "state", "randread", "--counters", str(file))
        return len(file.read_text().splitlines())

    with ThreadPoolExecutor(2) as pool:
        lengths = list(pool.map(run, range(6)))
    assert len(set(lengths)) == 1
    assert not list((tmp_path / "state").glob("counters-*"))


def test_settings_of_an_older_model_do_not_hold_what_it_no_longer_lets_change(tmp_path: Path) -> None:
    text = Path(twin.load_model("px05smb040").path).read_text()
    model = tmp_path / "model.yaml"
    model.write_text(text)
    drive = ("run", str(model), "--state", str(tmp_path / "state"), "--", "sdparm")
    assert command(*drive, "--set=DRA=1", "{drive}").returncode == 0
    model.write_text(text.replace("DRA: {value: 0, behaviour: changeable", "DRA: {value: 0, behaviour: fixed"))
    said = command(*drive, "--get=DRA", "--long", "{drive}").stdout
    assert next(line for line in said.splitlines() if line.startswith("DRA")).split()[1] == "0"
    assert command(*drive, "--set=WCE=0", "{drive}").returncode == 0


@pytest.mark.parametrize("action", ["reset", "power-cycle"])
def test_a_model_that_is_not_there_is_told(tmp_path: Path, action: str) -> None:
    said = command(action, "px05smb04", "--state", str(tmp_path))
    assert said.returncode == 2
    assert "Did you mean 'px05smb040'?" in said.stderr


def test_a_power_cycle_does_not_take_another_file_for_settings(tmp_path: Path) -> None:
    (tmp_path / "mode-pages").write_bytes(b"saved \xff")
    said = command("power-cycle", "px05smb040", "--state", str(tmp_path))
    assert (said.returncode, "Traceback" in said.stderr) == (2, False)
    assert "not the settings of a simulated drive" in said.stderr
    assert command("reset", "px05smb040", "--state", str(tmp_path)).returncode == 0
    assert command("power-cycle", "px05smb040", "--state", str(tmp_path)).returncode == 0


def test_threads_that_a_job_file_asks_for_in_one_job_only_are_used_in_all(tmp_path: Path) -> None:
    jobs = tmp_path / "two.fio"
    jobs.write_text("[global]\nfilename=${TWIN_DRIVE}\nsize=64m\nrw=read\nruntime=10ms\n[a]\nthread=1\n[b]\n")
    done = command("run", "px05smb040", "--state", str(tmp_path), "--", "fio", str(jobs))
    assert done.returncode == 0, done.stderr


BAD: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "line break in the serial number": ("TWIN05SMB040", "X\\nkind hard_disk", ("identity.serial", "ASCII")),
    "letter that INQUIRY cannot carry": ("vendor: TOSHIBA", "vendor: TÖSHIBA", ("identity.vendor", "ASCII")),
    "no rotation rate": ("rotation_rpm: 1", "rotation_rpm: 0", ("identity.rotation_rpm",)),
    "switch said twice, not the same": ("DRA: {value: 0", "DRA: {value: 1", ("mode_page.DRA.value: 1", "both")),
    "number as a key": ("name: PX05SMB040", "1: PX05SMB040", ("line 3", "a key must be text")),
    "list as a key": ("name: PX05SMB040", "[1]: PX05SMB040", ("line 3", "a key must be text")),
    "control character": ("name: PX05SMB040", "name: \x01", ("not valid YAML",)),
    "nested without end": ("name: PX05SMB040", f"name: {'[' * 3000}{']' * 3000}", ("nested too deeply",)),
    "mistakes of several kinds": (
        "    read_time: {",
        "    red_time: {",
        ("Did you mean 'read_time'?", "link.rate: '997.5 us'"),
    ),
}


@pytest.mark.parametrize("mistake", BAD)
def test_every_mistake_of_a_model_is_told_in_one_line_each(tmp_path: Path, mistake: str) -> None:
    there, instead, expected = BAD[mistake]
    text = Path(twin.load_model("px05smb040").path).read_text()
    assert there in text
    text = text.replace(there, instead)
    if mistake == "mistakes of several kinds":
        text = re.sub(r"(link:\n    rate: {value: )[^,]+", r"\g<1>997.5 us", text)
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    said = command("describe", str(path))
    assert (said.returncode, "Traceback" in said.stderr) == (2, False), said.stderr
    for words in expected:
        assert words in said.stderr
    for line in said.stderr.removeprefix("twin: error: ").splitlines():
        assert line.startswith(str(path))
