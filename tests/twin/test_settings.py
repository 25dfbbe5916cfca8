"""Settings of a simulated drive by `twin run --set`, sdparm and power cycles, also in concurrent runs."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import twins
from twins import command, json_of

from iopatterns import twin

READ = ["fio", "--name=a", "--filename={drive}", "--size=64m", "--bs=4k", "--direct=1", "--time_based"]
READ += ["--runtime=20ms", "--output-format=json"]


def mean_us(model: str, state: Path, rw: str, *options: str) -> float:
    done = command("run", model, "--state", str(state), *options, "--", *READ, f"--rw={rw}")
    assert done.returncode == 0, done.stderr
    return twins.mean_us(json_of(done.stdout), "write" if "write" in rw else "read")


@pytest.mark.parametrize(
    ("model", "switch", "rw"),
    [
        ("px05smb040", "read_ahead.enabled", "read"),
        ("c400", "write_buffer.enabled", "write"),
        ("hard-disk", "disk.write_cache_enabled", "write"),
    ],
)
def test_set_changes_a_switch_that_is_also_in_the_mode_page(tmp_path: Path, model: str, switch: str, rw: str) -> None:
    on = mean_us(model, tmp_path, rw)
    assert mean_us(model, tmp_path, rw, "--set", f"{switch}=off") > 2 * on
    assert mean_us(model, tmp_path, rw, "--set", f"{switch}=on") == on


def test_a_change_by_sdparm_outranks_set(tmp_path: Path) -> None:
    before = mean_us("px05smb040", tmp_path, "read")
    drive = ("run", "px05smb040", "--state", str(tmp_path), "--", "sdparm")
    assert command(*drive, "--set=DRA=1", "{drive}").returncode == 0
    assert mean_us("px05smb040", tmp_path, "read", "--set", "read_ahead.enabled=on") > 2 * before
    assert command(*drive, "--set=DRA=0", "{drive}").returncode == 0
    assert mean_us("px05smb040", tmp_path, "read") == before


@pytest.mark.slow
def test_concurrent_runs_with_different_settings_have_different_drives(tmp_path: Path) -> None:
    expected = {"20us": (30, 90), "500us": (500, 600), "1ms": (1000, 1150)}

    def run(time: str) -> bool:
        low, high = expected[time]
        return low < mean_us("px05smb040", tmp_path, "randread", "--set", f"flash.read_time={time}") < high

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(run, [*expected] * 8))


@pytest.mark.slow
def test_counters_of_concurrent_runs_do_not_mix(tmp_path: Path) -> None:
    def run(number: int) -> int:
        file = tmp_path / f"{number}.csv"
        mean_us("px05smb040", tmp_path / "state", "randread", "--counters", str(file))
        return len(file.read_text().splitlines())

    with ThreadPoolExecutor(2) as pool:
        lengths = list(pool.map(run, range(6)))
    assert len(set(lengths)) == 1
    assert not list((tmp_path / "state").glob("counters-*"))


def test_settings_that_a_changed_model_no_longer_permits_are_ignored(tmp_path: Path) -> None:
    text = Path(twin.load_model("px05smb040").path).read_text()
    model = tmp_path / "model.yaml"
    model.write_text(text)
    drive = ("run", str(model), "--state", str(tmp_path / "state"), "--", "sdparm")
    assert command(*drive, "--set=DRA=1", "{drive}").returncode == 0
    model.write_text(text.replace("DRA: {value: 0, behaviour: changeable", "DRA: {value: 0, behaviour: fixed"))
    printed = command(*drive, "--get=DRA", "--long", "{drive}").stdout
    assert next(line for line in printed.splitlines() if line.startswith("DRA")).split()[1] == "0"
    assert command(*drive, "--set=WCE=0", "{drive}").returncode == 0


@pytest.mark.parametrize("action", ["reset", "power-cycle"])
def test_a_missing_model_is_refused(tmp_path: Path, action: str) -> None:
    done = command(action, "px05smb04", "--state", str(tmp_path))
    assert done.returncode == 2
    assert "Did you mean 'px05smb040'?" in done.stderr


def test_a_power_cycle_refuses_a_damaged_settings_file(tmp_path: Path) -> None:
    assert command("power-cycle", "px05smb040", "--state", str(tmp_path)).returncode == 0  # makes the state folder
    (tmp_path / "mode-pages").write_bytes(b"saved \xff")
    done = command("power-cycle", "px05smb040", "--state", str(tmp_path))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "not the settings of a simulated drive" in done.stderr
    assert command("reset", "px05smb040", "--state", str(tmp_path)).returncode == 0
    assert command("power-cycle", "px05smb040", "--state", str(tmp_path)).returncode == 0


def test_thread_in_one_job_of_a_job_file_applies_to_all_jobs(tmp_path: Path) -> None:
    jobs = tmp_path / "two.fio"
    jobs.write_text("[global]\nfilename=${TWIN_DRIVE}\nsize=64m\nrw=read\nruntime=10ms\n[a]\nthread=1\n[b]\n")
    done = command("run", "px05smb040", "--state", str(tmp_path / "state"), "--", "fio", str(jobs))
    assert done.returncode == 0, done.stderr
