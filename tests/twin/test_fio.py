"""Unmodified fio on twins: every engine and workload that is served, the same bytes each time; refusals in words."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from patience import run as run_patiently
from support import busy_processors
from twins import JOB, TWIN, fio, run

from iopatterns import twin
from iopatterns.twin.running import prepare_environment


def mean_us(content: dict[str, Any], direction: str = "read") -> float:
    return float(content["jobs"][0][direction]["lat_ns"]["mean"] / 1e3)


TIMED = ["--time_based=1", "--runtime=300ms"]
ENGINES = ("sync", "psync", "vsync", "pvsync", "pvsync2", "libaio")
RANDOM = ["--rw=randread", "--ioengine=psync"]
ASYNCHRONOUS = ["--rw=randread", "--ioengine=libaio"]
ANOTHER = ["--rw=read", "--filename={drive}", "--size=64m"]
WORKLOADS = {
    **{f"{engine} mix": ["--rw=randrw", f"--ioengine={engine}", *TIMED] for engine in ENGINES},
    "sequential": ["--rw=read", "--ioengine=psync", *TIMED],
    "16 jobs": [*RANDOM, "--numjobs=16", "--group_reporting", *TIMED],
    "64 jobs": [*RANDOM, "--numjobs=64", "--group_reporting", "--time_based=1", "--runtime=50ms"],
    "depth 32 by 4 jobs": ["--rw=randrw", "--ioengine=libaio", "--iodepth=32", "--numjobs=4", *TIMED],
    "depth 1024": [*ASYNCHRONOUS, "--iodepth=1024", *TIMED],
    "batches": [*ASYNCHRONOUS, "--iodepth=32", "--iodepth_batch=8", "--iodepth_batch_complete_min=4", *TIMED],
    "offload": [*ASYNCHRONOUS, "--iodepth=16", "--io_submit_mode=offload", "--iodepth_batch_complete_min=4", *TIMED],
    "think time": [*RANDOM, "--thinktime=500", *TIMED],
    "think time spinning": [*RANDOM, "--thinktime=200", "--thinktime_spin=100", *TIMED],
    "think time spinning in 4 jobs": [*RANDOM, "--numjobs=4", "--thinktime=200", "--thinktime_spin=200", *TIMED],
    "busy polling": [*ASYNCHRONOUS, "--iodepth=8", "--iodepth_batch_complete_min=0", "--numjobs=2", *TIMED],
    "rate": [*RANDOM, "--rate_iops=1000", *TIMED],
    "fsync": ["--rw=randwrite", "--ioengine=psync", "--fsync=10", *TIMED],
    "ramp": [*RANDOM, "--ramp_time=200ms", *TIMED],
    "limited by size": ["--rw=read", "--ioengine=psync", "--io_size=4m"],
    "stonewall": [*RANDOM, *TIMED, "--name=second", "--stonewall", *ANOTHER],
    "read beforehand": [*RANDOM, "--pre_read=1", "--direct=0", "--size=2m"],
    "late start": [*RANDOM, *TIMED, "--name=late", "--startdelay=100ms", *ANOTHER],
    "trim": ["--rw=randtrim", "--ioengine=psync", *TIMED],
    "status in between": [*RANDOM, "--time_based=1", "--runtime=2500ms", "--status-interval=1"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_two_runs_one_of_them_on_a_loaded_machine_write_the_same_bytes(name: str, tmp_path: Path) -> None:
    content = fio(tmp_path, *WORKLOADS[name])
    first = (tmp_path / "raw.json").read_bytes()
    (tmp_path / "raw.json").unlink()
    with busy_processors():
        fio(tmp_path, *WORKLOADS[name])
    assert (tmp_path / "raw.json").read_bytes() == first
    done = sum(job[direction]["total_ios"] for job in content["jobs"] for direction in ("read", "write", "trim"))
    assert done > 0
    assert all(job["error"] == 0 for job in content["jobs"])
    if "mix" in name:
        assert min(content["jobs"][0][direction]["total_ios"] for direction in ("read", "write")) > 0


def test_nothing_of_the_machine_is_in_the_result(tmp_path: Path) -> None:
    content = fio(tmp_path, "--rw=randread", "--ioengine=psync", *TIMED)
    assert content["time"].startswith("Tue Jan  7")
    assert content["time"].rstrip().endswith("2020")
    assert "disk_util" not in content
    (job,) = content["jobs"]
    assert (job["majf"], job["minf"], job["usr_cpu"]) == (0, 0, 0)


def test_a_random_read_takes_what_the_model_says_and_a_sequential_one_less(tmp_path: Path) -> None:
    model = twin.load_model("px05smb040")
    random, sequential = (
        mean_us(fio(tmp_path, f"--rw={rw}", "--ioengine=psync", *TIMED)) for rw in ("randread", "read")
    )
    floor_us = (model.number("flash.read_time") + 4096 / model.number("link.rate") * 1e9) / 1e3
    assert floor_us < random < 1.5 * floor_us
    assert sequential < 0.5 * random


def test_runtime_rate_and_ramp_are_kept_in_virtual_time(tmp_path: Path) -> None:
    (job,) = fio(tmp_path, *WORKLOADS["rate"])["jobs"]
    assert job["read"]["iops"] == pytest.approx(1000, rel=0.01)
    assert job["read"]["runtime"] == pytest.approx(300, abs=2)
    (job,) = fio(tmp_path, *WORKLOADS["ramp"])["jobs"]
    assert job["read"]["runtime"] == pytest.approx(300, abs=2)


def test_stonewalled_job_begins_when_the_others_have_ended(tmp_path: Path) -> None:
    first, second = fio(tmp_path, *WORKLOADS["stonewall"])["jobs"]
    assert first["read"]["lat_ns"]["max"] < 200_000
    assert second["read"]["lat_ns"]["mean"] < 35_000  # nobody else was on the drive


@pytest.mark.parametrize("version", [2, 3])
def test_io_log_is_replayed(tmp_path: Path, version: int) -> None:
    drive = "/dev/twin-px05smb040"
    times = ["0 ", "1000 ", "2000 "] if version == 3 else ["", "", ""]
    lines = [f"fio version {version} iolog", f"{times[0]}{drive} add", f"{times[0]}{drive} open"]
    lines += [f"{time}{drive} {action} {offset} 4096" for time, action, offset in
              zip(times, ("read", "write", "read"), (0, 8192, 1 << 20), strict=True)]  # fmt: skip
    log = tmp_path / "io.log"
    log.write_text("\n".join([*lines, f"{times[2]}{drive} close"]) + "\n")
    content = fio(tmp_path, f"--read_iolog={log}", "--ioengine=psync")
    assert content["jobs"][0]["read"]["total_ios"] == 2
    assert content["jobs"][0]["write"]["total_ios"] == 1


def test_verify_passes_on_kept_data_and_finds_a_corrupted_byte(tmp_path: Path) -> None:
    options = ["--verify=crc32c", "--verify_state_save=0", "--io_size=1m", "--size=1m", "--ioengine=psync"]
    fio(tmp_path, "--rw=randwrite", "--do_verify=1", *options, keep_data=True)
    fio(tmp_path, "--rw=randread", *options, keep_data=True)
    with open(tmp_path / "content", "r+b") as content:
        content.seek(300_000)
        byte = content.read(1)
        content.seek(300_000)
        content.write(bytes([byte[0] ^ 1]))
    wrong = run(tmp_path, *JOB, "--direct=1", "--rw=read", *options, keep_data=True)
    assert wrong.returncode != 0
    assert "verify" in wrong.stderr + wrong.stdout


def test_counters_are_written_as_a_table(tmp_path: Path) -> None:
    import pandas as pd

    table = tmp_path / "counters.parquet"
    done = subprocess.run(
        [*TWIN, "run", "px05smb040", "--state", str(tmp_path), "--counters", str(table), "--interval", "50 ms", "--",
         *JOB, "--direct=1", "--rw=randread", "--ioengine=libaio", "--iodepth=8", *TIMED],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    series = pd.read_parquet(table)
    depth = series[series["series"] == "queue_depth"]["value"]
    assert depth.max() == 8
    assert depth.iloc[-1] == 0
    reads = series[series["series"] == "read_commands"]["value"]
    assert reads.is_monotonic_increasing
    assert reads.iloc[-1] == len(depth) / 2


@pytest.mark.parametrize("direct", [0, 1])
def test_a_log_that_names_another_file_is_refused_and_the_file_is_left_alone(tmp_path: Path, direct: int) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"precious" * 1024)
    log = tmp_path / "io.log"
    log.write_text(f"fio version 2 iolog\n{other} add\n{other} open\n{other} write 0 4096\n{other} close\n")
    replay = [*JOB, f"--direct={direct}", f"--read_iolog={log}", "--ioengine=psync"]
    refused = run(tmp_path, *replay)
    assert refused.returncode == 2
    assert "only the drive is simulated" in refused.stderr
    assert "--replay_redirect={drive}" in refused.stderr
    assert run(tmp_path, *replay, "--replay_redirect={drive}").returncode == 0
    assert other.read_bytes() == b"precious" * 1024


REFUSED = {
    "io_uring": (["--ioengine=io_uring", "--rw=read"], "ioengine=libaio"),
    "mapped memory": (["--ioengine=mmap", "--rw=read"], "ioengine=libaio"),
    "POSIX AIO": (["--ioengine=posixaio", "--rw=read"], "ioengine=libaio"),
    "forked workers": (["--thread=0", "--rw=read"], "thread=1"),
    "the processor's counter": (["--clocksource=cpu", "--rw=read"], "clock_gettime"),
    "profiles of idle processors": (["--idle-prof=percpu", "--rw=read"], "Leave it out"),
    "batches of offloaded requests": (
        ["--ioengine=libaio", "--iodepth=16", "--io_submit_mode=offload", "--iodepth_batch=4", "--rw=randread"],
        "Leave iodepth_batch out",
    ),
    "a user of its own": (["--uid=0", "--rw=read"], "as that user"),
    "verify without kept data": (["--verify=crc32c", "--rw=write"], "--keep-data"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_served_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    options, remedy = REFUSED[name]
    refused = run(tmp_path, *JOB, *options)
    assert refused.returncode == 2
    (line,) = refused.stderr.strip().splitlines()
    assert line.startswith("twin")
    assert "cannot be served" in line
    assert remedy in line


# The same without a look at the command line: what the library itself finds when the program does it.
FOUND = {
    "io_uring": (["--thread=1", "--clocksource=clock_gettime", "--ioengine=io_uring"], "libaio"),
    "mapped memory": (["--thread=1", "--clocksource=clock_gettime", "--ioengine=mmap"], "libaio"),
    "POSIX AIO": (["--thread=1", "--clocksource=clock_gettime", "--ioengine=posixaio"], "libaio"),
    "forked workers": (["--clocksource=clock_gettime", "--ioengine=psync"], "--thread=1"),
    "the processor's counter": (["--thread=1", "--clocksource=cpu", "--ioengine=psync"], "clock_gettime"),
    "a thread for the clock": (
        ["--thread=1", "--clocksource=clock_gettime", "--gtod_cpu=0", "--ioengine=psync"],
        "no gtod_cpu",
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_cannot_be_served_is_found_while_the_program_runs(name: str, tmp_path: Path) -> None:
    options, remedy = FOUND[name]
    environment = prepare_environment("px05smb040", str(tmp_path))
    words = [word.replace("{drive}", environment["TWIN_DRIVE"]) for word in JOB]
    words = [*words, "--rw=read", *options]
    done = run_patiently(words, 60, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if name == "io_uring" and "not loadable" in done.stdout + done.stderr:
        pytest.skip("this fio has no io_uring")
    assert done.returncode == 2, done.stdout + done.stderr
    assert remedy in done.stderr
    assert not Path(environment["TWIN_DRIVE"]).exists()


def test_unknown_command_and_wrong_usage_are_told(tmp_path: Path) -> None:
    assert "needs a command" in run(tmp_path).stderr
    missing = run(tmp_path, "no-such-program")
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)


def test_several_programs_in_one_shell_share_the_drive_s_settings(tmp_path: Path) -> None:
    script = (
        "sdparm --quiet --set=DRA=1 $TWIN_DRIVE && fio --name=a --filename=$TWIN_DRIVE --size=64m --rw=read --bs=4k"
        " --direct=1 --thread=1 --clocksource=clock_gettime --time_based --runtime=100ms --output-format=terse"
    )
    done = run(tmp_path, "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    iops = int(done.stdout.strip().splitlines()[-1].split(";")[7])
    assert iops < 11_000
