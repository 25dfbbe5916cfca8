"""Unmodified fio on simulated drives: the same bytes in each run, and messages for what is not supported."""

import subprocess
from pathlib import Path

import pandas as pd
import pytest
from patience import run as run_patiently
from support import busy_processors
from twins import JOB, command, fio, mean_us, run

from iopatterns import twin
from iopatterns.twin.running import prepare_environment

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
def test_a_run_on_a_busy_machine_writes_the_same_bytes(name: str, tmp_path: Path) -> None:
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


def test_the_result_does_not_contain_the_machine(tmp_path: Path) -> None:
    content = fio(tmp_path, "--rw=randread", "--ioengine=psync", *TIMED)
    assert content["time"].startswith("Tue Jan  7")
    assert content["time"].rstrip().endswith("2020")
    assert "disk_util" not in content
    (job,) = content["jobs"]
    assert (job["majf"], job["minf"], job["usr_cpu"]) == (0, 0, 0)


def test_a_random_read_takes_the_time_of_flash_and_link_and_a_sequential_read_less(tmp_path: Path) -> None:
    model = twin.load_model("px05smb040")
    random, sequential = (
        mean_us(fio(tmp_path, f"--rw={rw}", "--ioengine=psync", *TIMED)) for rw in ("randread", "read")
    )
    floor_us = (model.number("flash.read_time") + 4096 / model.number("link.rate") * 1e9) / 1e3
    steps = ("host.submit_time", "host.lock_time", "host.wakeup_time", "host.reap_time", "controller.read_command_time")
    overhead_us = sum(model.number(step) for step in steps) / 1e3
    assert floor_us + overhead_us < random < 1.15 * (floor_us + overhead_us)
    assert sequential < 0.5 * random


def test_runtime_rate_and_ramp_time_are_exact_in_virtual_time(tmp_path: Path) -> None:
    (job,) = fio(tmp_path, *WORKLOADS["rate"])["jobs"]
    assert job["read"]["iops"] == pytest.approx(1000, rel=0.01)
    assert job["read"]["runtime"] == pytest.approx(300, abs=2)
    (job,) = fio(tmp_path, *WORKLOADS["ramp"])["jobs"]
    assert job["read"]["runtime"] == pytest.approx(300, abs=2)


def test_a_stonewalled_job_begins_after_the_others(tmp_path: Path) -> None:
    first, second = fio(tmp_path, *WORKLOADS["stonewall"])["jobs"]
    assert first["read"]["lat_ns"]["max"] < 200_000
    assert second["read"]["lat_ns"]["mean"] < 35_000  # no other job used the drive


@pytest.mark.parametrize("version", [2, 3])
def test_an_io_log_is_replayed(tmp_path: Path, version: int) -> None:
    drive = "/dev/twin-px05smb040"
    lines = ["add", "open", "read 0 4096", "write 8192 4096", f"read {1 << 20} 4096", "close"]
    times = [f"{number * 1000} " if version == 3 else "" for number in range(len(lines))]
    log = tmp_path / "io.log"
    log.write_text(
        f"fio version {version} iolog\n"
        + "".join(f"{time}{drive} {line}\n" for time, line in zip(times, lines, strict=True))
    )
    content = fio(tmp_path / "state", f"--read_iolog={log}", "--ioengine=psync")
    assert content["jobs"][0]["read"]["total_ios"] == 2
    assert content["jobs"][0]["write"]["total_ios"] == 1


def test_verification_of_kept_data_finds_a_corrupted_byte(tmp_path: Path) -> None:
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


def test_twin_run_writes_counters_as_a_table(tmp_path: Path) -> None:
    table = tmp_path / "counters.parquet"
    options = ["--state", str(tmp_path), "--counters", str(table), "--interval", "50 ms"]
    workload = ["--direct=1", "--rw=randread", "--ioengine=libaio", "--iodepth=8", *TIMED]
    done = command("run", "px05smb040", *options, "--", *JOB, *workload)
    assert done.returncode == 0, done.stderr
    series = pd.read_parquet(table)
    depth = series[series["series"] == "queue_depth"]["value"]
    assert depth.max() == 8
    assert depth.iloc[-1] == 0
    reads = series[series["series"] == "read_commands"]["value"]
    assert reads.is_monotonic_increasing
    assert reads.iloc[-1] == len(depth) / 2


REFUSED = {
    "processes instead of threads": (["--thread=0", "--rw=read"], "thread=1"),
    "the processor's clock": (["--clocksource=cpu", "--rw=read"], "clock_gettime"),
    "idle profiles": (["--idle-prof=percpu", "--rw=read"], "Leave it out"),
    "batches of offloaded requests": (
        ["--ioengine=libaio", "--iodepth=16", "--io_submit_mode=offload", "--iodepth_batch=4", "--rw=randread"],
        "Leave iodepth_batch out",
    ),
    "another user": (["--uid=0", "--rw=read"], "as that user"),
    "verify without kept data": (["--verify=crc32c", "--rw=write"], "--keep-data"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_unsupported_option_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    options, remedy = REFUSED[name]
    refused = run(tmp_path, *JOB, *options)
    assert refused.returncode == 2
    (line,) = refused.stderr.strip().splitlines()
    assert line.startswith("twin")
    assert "not supported" in line
    assert remedy in line


# What the preload library refuses while the program runs, without a check of the command line
REFUSED_AT_RUN_TIME = {
    "io_uring": (["--thread=1", "--clocksource=clock_gettime", "--ioengine=io_uring"], "libaio"),
    "mapped memory": (["--thread=1", "--clocksource=clock_gettime", "--ioengine=mmap"], "libaio"),
    "POSIX AIO": (["--thread=1", "--clocksource=clock_gettime", "--ioengine=posixaio"], "libaio"),
    "processes": (["--clocksource=clock_gettime", "--ioengine=psync"], "--thread=1"),
    "the processor's clock": (["--thread=1", "--clocksource=cpu", "--ioengine=psync"], "clock_gettime"),
    "gtod_cpu": (["--thread=1", "--clocksource=clock_gettime", "--gtod_cpu=0", "--ioengine=psync"], "gtod_cpu"),
}


@pytest.mark.parametrize("name", REFUSED_AT_RUN_TIME)
def test_the_library_refuses_what_is_not_supported(name: str, tmp_path: Path) -> None:
    options, remedy = REFUSED_AT_RUN_TIME[name]
    environment = prepare_environment("px05smb040", str(tmp_path))
    words = [word.replace("{drive}", environment["TWIN_DRIVE"]) for word in JOB]
    words = [*words, "--rw=read", *options]
    done = run_patiently(words, 60, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if name == "io_uring" and "not loadable" in done.stdout + done.stderr:
        pytest.skip("this fio has no io_uring")
    assert done.returncode == 2, done.stdout + done.stderr
    assert remedy in done.stderr
    assert not Path(environment["TWIN_DRIVE"]).exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["px05smb040"], "requires a command after --"),
        (["--", "true"], "requires a MODEL"),
        (["a", "b", "--", "true"], "requires one MODEL, not a and b"),
        (["px05smb040", "--stat=", "--", "true"], "option --state requires a value"),
        (["px05smb040", "--stat"], "option --state requires argument"),
        (["px05smb040", "--no-such", "--", "true"], "option --no-such not recognized"),
    ],
)
def test_wrong_usage_is_reported(words: list[str], message: str) -> None:
    done = command("run", *words)
    assert (done.returncode, done.stderr) == (2, f"twin: error: {message}.\nTry 'twin run --help' for help.\n")


def test_a_missing_program_is_reported_in_one_line(tmp_path: Path) -> None:
    missing = run(tmp_path, "no-such-program")
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)


def test_all_programs_of_a_shell_share_the_drive_s_settings(tmp_path: Path) -> None:
    script = (
        "sdparm --quiet --set=DRA=1 $TWIN_DRIVE && fio --name=a --filename=$TWIN_DRIVE --size=64m --rw=read --bs=4k"
        " --direct=1 --thread=1 --clocksource=clock_gettime --time_based --runtime=100ms --output-format=terse"
    )
    done = run(tmp_path, "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    iops = int(done.stdout.strip().splitlines()[-1].split(";")[7])
    assert iops < 11_000
