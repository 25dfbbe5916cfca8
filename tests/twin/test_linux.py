"""`twin linux`: a Linux kernel and its file systems on a simulated drive, in virtual time."""

import hashlib
import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import patience
import pytest
from linux_kernel import (
    FIO,
    NO_CHARGES,
    SMALL,
    fio,
    let_others_in,
    linux,
    needs_debian_kernel,
    needs_kernel,
    needs_other_users,
    rows,
    shell,
)
from support import busy_processors
from twins import TWIN, command, json_of

from iopatterns.base import schedulers
from iopatterns.twin import linux as twin_linux
from iopatterns.twin import models
from iopatterns.twin.trace_replay import replay_trace
from iopatterns.twin.traces import parquet

pytestmark = [pytest.mark.slow, needs_kernel]
WRITES = "dd if=/dev/zero of=a bs=4k count=300 conv=fsync status=none; sync; rm a"


def test_output_and_exit_status_are_those_of_the_command() -> None:
    done = linux("--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert re.fullmatch(r"err\ntwin: charged \d+ system calls .* and \d+ page faults .*\n", done.stderr)


def test_a_killed_command_gives_128_plus_the_signal() -> None:
    assert linux("--", "sh", "-c", "kill -9 $$").returncode == 128 + 9


def test_a_missing_command_is_reported() -> None:
    done = linux("--", "no-such-program")
    assert done.returncode == 127
    assert "no-such-program" in done.stderr


def test_the_command_runs_as_an_ordinary_user_on_the_drives_file_system() -> None:
    done = shell("id -u; stat -f -c %T .; touch here; uname -s")
    user = "65534" if os.geteuid() == 0 else str(os.geteuid())
    assert done.stdout.split() == [user, "ext2/ext3", "Linux"]


def _needs_mkfs(file_system: str) -> None:
    program = twin_linux.MKFS_PROGRAMS[file_system][0][0]
    if shutil.which(program, path=twin_linux.GUEST_PATH) is None:
        pytest.skip(f"{program} is not installed")


@pytest.mark.parametrize("file_system", ["ext4", "ext3", "ext2", "xfs", "btrfs", "f2fs"])
def test_file_systems_return_what_was_written(file_system: str) -> None:
    _needs_mkfs(file_system)
    script = "head -c 1000000 /dev/zero | tr '\\0' x > a; sync; md5sum a; grep /mnt/drive /proc/mounts | cut -d' ' -f3"
    expected = hashlib.md5(b"x" * 1_000_000).hexdigest()
    assert shell(script, "--fs", file_system).stdout.split() == [expected, "a", file_system]


def test_general_and_specific_mount_options_can_be_combined() -> None:
    options = shell("grep /mnt/drive /proc/mounts", "--mount-options", "noatime,discard,nobarrier").stdout.split()[3]
    assert {"noatime", "discard", "nobarrier"} <= set(options.split(","))


def test_the_kept_image_contains_the_written_data(tmp_path: Path) -> None:
    image = tmp_path / "image"
    shell("echo kept > a", "--keep", str(image))
    found = subprocess.run(["debugfs", "-R", "cat a", image], capture_output=True, text=True, check=True,
                           env={**os.environ, "PATH": twin_linux.GUEST_PATH})  # fmt: skip
    assert found.stdout == "kept\n"
    checked = subprocess.run(["/sbin/e2fsck", "-fn", image], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
    assert image.stat().st_size == 2**32
    assert image.stat().st_blocks * 512 < 2**28


def test_the_trace_contains_the_requests_of_the_command(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    shell(WRITES, "--mount-options", "discard", "--trace", str(trace))
    found = rows(trace)
    written = sum(int(row["size_bytes"]) for row in found if row["operation"] == "write")
    assert {"write", "flush", "discard"} <= {row["operation"] for row in found}
    assert written >= 300 * 4096
    times = [[int(row[name]) for name in ("time_ns", "dispatched_ns", "completed_ns")] for row in found]
    assert all(queued <= dispatched < completed for queued, dispatched, completed in times)
    assert [row[0] for row in times] == sorted(row[0] for row in times)


@pytest.mark.parametrize("arrival_times", [False, True])
def test_a_replay_of_the_whole_trace_equals_the_run(arrival_times: bool, tmp_path: Path) -> None:
    # the host of this model costs time, and its drive has random events
    model, size = "ssdsc2bb300g4", "capacity.size=64 GiB"
    options = ("--mount-options", "discard", "--set", size, "--seed", "7")
    whole, of_command = tmp_path / "whole.parquet", tmp_path / "command.parquet"
    shell(WRITES, *options, "--trace", str(whole), "--trace-all", model=model)
    shell(WRITES, *options, "--trace", str(of_command), model=model)
    recorded = pd.read_parquet(whole)
    assert len(recorded) > len(pd.read_parquet(of_command)) > 0
    drive, recorded_on = models.load_model(model).overridden([size]), parquet.read_recorded_drive(whole)
    assert recorded_on is not None
    assert (recorded_on.name, recorded_on.model_digest, recorded_on.seed) == (model, drive.digest, 7)
    done = replay_trace(drive, whole, arrival_times=arrival_times)
    latencies = done.latencies.set_index("request").sort_index()
    assert (latencies["issue_ns"] - recorded_on.start_ns == recorded["time_ns"]).all()
    assert (latencies["latency_ns"] == recorded["completed_ns"] - recorded["time_ns"]).all()
    assert done.counters["write_bytes"] >= 300 * 4096


def test_the_guest_sends_no_more_requests_than_the_drive_takes(tmp_path: Path) -> None:
    done = linux("--queue-depth", "2", "--", "true", model="mtron-7500")
    assert done.returncode == 2
    assert "--queue-depth: 2 is not valid. Valid for mtron-7500: 1 to 1" in done.stderr
    trace = tmp_path / "trace.csv"
    words = ("--ioengine=libaio", "--iodepth=8", "--rw=randread", *DIRECT)
    fio(*words, options=("--fs", "none", "--set", "link.queue_slots=3", "--trace", str(trace)))
    assert largest_depth(trace) == 3


@pytest.mark.parametrize("file_system", ["ext4", "ext2", "xfs", "btrfs", "f2fs"])
def test_a_file_system_has_the_given_size(file_system: str) -> None:
    _needs_mkfs(file_system)
    size_of = "df --block-size=1M --output=size . | tail -n 1"
    size_mib = int(shell(size_of, "--fs", file_system, "--fs-size", "400 MiB").stdout)
    assert 300 <= size_mib <= 400 < int(shell(size_of, "--fs", file_system).stdout)


def test_counters_of_the_drive_are_written(tmp_path: Path) -> None:
    counters = tmp_path / "counters.parquet"
    shell(WRITES, "--counters", str(counters), "--interval", "1 ms")
    series = pd.read_parquet(counters).groupby("series", observed=True)["value"].max()
    assert series["write_bytes"] >= 300 * 4096
    assert 1 <= series["queue_depth"] <= 32


def output_and_trace(folder: Path, *options: str, **how: object) -> tuple[str, bytes]:
    """Run a workload with threads, fsync and discards; return its output and its trace."""
    folder.mkdir()
    folder.chmod(0o777)  # another user writes to it
    trace = folder / "trace.csv"
    job = ("--ioengine=psync", "--thread=1", "--numjobs=4", "--size=2m", "--rw=randwrite", "--fsync=10", "--unlink=1")
    options = ("--mount-options", "discard", "--trace", str(trace), "--state", str(folder), *options)
    done = linux(*options, "--", *FIO, *job, **how)  # type: ignore[arg-type]
    assert done.returncode == 0, done.stderr
    return done.stdout, trace.read_bytes()


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    return output_and_trace(tmp_path_factory.mktemp("reference") / "a")


def test_a_workload_always_gives_the_same_trace_and_output(reference: tuple[str, bytes], tmp_path: Path) -> None:
    assert reference[1].count(b"\n") > 100
    assert output_and_trace(tmp_path / "a") == reference


def test_a_busy_machine_in_another_zone_gives_the_same_trace(reference: tuple[str, bytes], tmp_path: Path) -> None:
    environment = {"TZ": "Asia/Kathmandu", "LC_ALL": "de_DE.UTF-8", "LONG": "x" * 5000}
    with busy_processors():
        found = output_and_trace(tmp_path / "a", environment=environment, umask=0o077)
    assert found == reference


@needs_other_users
def test_another_user_gets_the_same_trace(reference: tuple[str, bytes], tmp_path: Path) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        found = output_and_trace(
            folder / "a", user=4242, group=4242, extra_groups=[], umask=0, environment={"HOME": name}
        )
    assert found == reference


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide a file of the system")
def test_another_search_order_of_libraries_gives_the_same_trace_without_charges(tmp_path: Path) -> None:
    hidden = 'mount --bind /dev/null /etc/ld.so.cache && exec "$@"'
    usual = output_and_trace(tmp_path / "a", *NO_CHARGES)
    other = output_and_trace(tmp_path / "b", *NO_CHARGES, within=("unshare", "--mount", "sh", "-c", hidden, "sh"))
    assert other == usual


def test_requests_do_not_depend_on_the_content_of_the_guests_memory(tmp_path: Path) -> None:
    # more data than the kernel keeps dirty, so that it writes back before the end
    job = shlex.join([*FIO, "--rw=write", "--bs=64k", "--size=250m", "--ioengine=psync", "--numjobs=2", "--thread=1"])
    libraries = "cat /usr/lib/*/lib*.so* | head -c 30000000 > /dev/null"
    asked = {}
    for name, before in {"nothing": ":", "libraries": libraries, "variable": "a=$(seq 200000)"}.items():
        trace = tmp_path / f"{name}.csv"
        # with charges, what precedes the job shifts its times, and with them the turns of its threads
        shell(f"{before}; {job} > /dev/null", *NO_CHARGES, "--trace", str(trace))
        found = rows(trace)
        asked[name] = [(row["operation"], row["offset_bytes"], row["size_bytes"]) for row in found]
        assert max(int(row["size_bytes"]) for row in found) > 256 * 4096
    assert asked["libraries"] == asked["variable"] == asked["nothing"]


def test_failing_calls_take_no_time_unless_a_program_waits_by_repeating_them() -> None:
    asked = "i=0; while [ $i -lt 500 ]; do i=$((i + 1)); test -e /none$i || :; done"
    waits = "(sleep 0.01; : > made) & until [ -e made ]; do :; done"
    done = shell(f"date +%s%N; date +%s%N; {asked}; date +%s%N; {waits}", *NO_CHARGES)
    first, second, third = map(int, done.stdout.split())
    assert third - second == second - first


CLOCKS = """
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int main() {  // prints the steps between readings of the clock: nine by the vDSO, then one by a system call
  static long read_ns[5000];
  for (int i = 0; i < 5000; ++i) {
    timespec now{};
    if (i % 10 == 9) syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    else clock_gettime(CLOCK_MONOTONIC, &now);
    read_ns[i] = now.tv_sec * 1000000000 + now.tv_nsec;
  }
  for (int i = 1; i < 5000; ++i) printf("%ld\\n", read_ns[i] - read_ns[i - 1]);
}
"""


def test_reading_the_clock_takes_the_same_time_with_and_without_system_call(tmp_path: Path) -> None:
    source, program = tmp_path / "clocks.cc", tmp_path / "clocks"
    source.write_text(CLOCKS)
    subprocess.run(["g++", "-O1", "-o", program, source], check=True)
    let_others_in(tmp_path)
    done = shell(f"grep -c '^[0-9a-f-]* rw-s .*vvar' /proc/self/maps; {program}", *NO_CHARGES)
    mapped, *steps_ns = map(int, done.stdout.split())
    assert mapped == 1
    assert set(steps_ns) == {256}


def test_a_timer_interrupts_a_program_that_reads_the_clock_in_a_loop() -> None:
    script = (
        "import signal, time; due = []; signal.signal(signal.SIGALRM, lambda *_: due.append(time.monotonic_ns()));"
        " begun = time.monotonic_ns(); signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
        "while not due: time.monotonic_ns()\n"
        "print(due[0] - begun)"
    )
    done = shell(f"/usr/bin/python3 -c {shlex.quote(script)}")
    # the tick of the guest's clock is 4 ms
    assert 50_000_000 <= int(done.stdout) < 54_000_000


def test_another_seed_gives_another_file_system(tmp_path: Path) -> None:
    uuids = {shell("blkid -o value -s UUID /dev/vda", "--seed", seed).stdout for seed in ("1", "1", "2")}
    assert len(uuids) == 2


@pytest.mark.parametrize("script", ["while :; do :; done", "while :; do date > /dev/null; done"])
def test_a_spinning_program_ends_at_the_wall_limit(script: str) -> None:
    # the guest must start within the limit, also on a busy machine
    limit_s = round(4 * patience.slowness())
    done = linux("--wall-limit", f"{limit_s} s", "--", "sh", "-c", f"echo before; {script}", timeout_s=limit_s + 60)
    assert done.returncode == 124
    assert "wall limit" in done.stderr
    assert done.stdout == "before\n"


@contextmanager
def endless(*options: str) -> Iterator[tuple[subprocess.Popen[str], int, dict[int, str]]]:
    """Run a program that never ends; yield the command, the machine, and all processes of the machine by number."""
    argv = [*TWIN, "linux", *SMALL, *options, "px05smb040", "--", "sh", "-c", "echo begun; while :; do :; done"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        machine = children_of(process.pid)[0]
        yield process, machine, {pid: command_of(pid) for pid in descendants_of(machine)}
        process.stdout.read()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("whom", ["command line", "machine", "kernel"])
def test_nothing_is_left_behind(number: signal.Signals, whom: str) -> None:
    with endless() as (process, machine, others):
        folder = folder_of(others)
        kernel = next(pid for pid, command in others.items() if "mem=" in command)
        assert children_of(kernel)
        os.kill({"command line": process.pid, "machine": machine, "kernel": kernel}[whom], number)
    patience.wait_for(lambda: not [pid for pid in (machine, *others) if alive(pid)], 10)
    patience.wait_for(lambda: not folder.exists(), 10)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL], ids=["panic", "killed"])
def test_a_crash_of_the_kernel_is_one_message(number: signal.Signals) -> None:
    with endless() as (process, machine, others):
        folder = folder_of(others)
        os.kill(next(pid for pid, command in others.items() if "mem=" in command), number)
        assert process.stderr is not None
        message = process.stderr.read()
    assert process.returncode == 125
    assert message.startswith("twin: error: the guest has crashed before the command ended")
    assert message.count("twin:") == 1
    assert ("panic" in message.lower()) == (number == signal.SIGSEGV)
    patience.wait_for(lambda: not [pid for pid in (machine, *others) if alive(pid)], 10)
    assert not folder.exists()


@pytest.mark.parametrize("whom", ["keeper", "helper of the kernel"])
def test_a_run_without_keeper_or_helper_leaves_nothing_behind(whom: str) -> None:
    with endless() as (process, machine, others):
        folder = folder_of(others)
        kernel = next(pid for pid, command in others.items() if "mem=" in command)
        keeper = next(pid for pid, command in others.items() if "mem=" not in command)
        os.kill(keeper if whom == "keeper" else children_of(kernel)[0], signal.SIGKILL)
        process.terminate()
    assert process.returncode == 128 + signal.SIGTERM
    patience.wait_for(lambda: not [pid for pid in (machine, *others) if alive(pid)], 10)
    assert not folder.exists()


def test_a_killed_process_of_the_command_ends_the_command() -> None:
    with endless() as (process, machine, others):
        kernel = next(pid for pid, command in others.items() if "mem=" in command)
        os.kill(children_of(kernel)[-1], signal.SIGKILL)
    assert process.returncode == 128 + signal.SIGSEGV
    patience.wait_for(lambda: not [pid for pid in (machine, *others) if alive(pid)], 10)


@pytest.mark.parametrize("options", [(), pytest.param(("--real-time",), marks=needs_debian_kernel)], ids=" ".join)
def test_the_guest_ends_with_machine_and_keeper_and_the_next_run_removes_the_folder(options: tuple[str, ...]) -> None:
    with endless(*options) as (_, machine, others):
        folder = folder_of(others)
        keeper = next(pid for pid, command in others.items() if "mem=" not in command)
        os.kill(keeper, signal.SIGKILL)
        os.kill(machine, signal.SIGKILL)
    patience.wait_for(lambda: not [pid for pid in (machine, *others) if alive(pid)], 10)
    assert linux("--", "true").returncode == 0
    assert not folder.exists()


def test_a_run_keeps_the_folders_of_other_runs() -> None:
    with endless() as (process, _, others):
        folder = folder_of(others)
        assert linux("--", "true").returncode == 0
        assert folder.exists()
        process.terminate()
    assert process.returncode == 128 + signal.SIGTERM


@needs_debian_kernel
def test_debians_kernel_has_the_schedulers_of_all_models() -> None:
    shown = shell("cat /sys/block/vda/queue/scheduler", "--real-time", model="c400").stdout
    assert "[bfq]" in shown


def folder_of(others: dict[int, str]) -> Path:
    """Return the folder of a run: the working directory of its kernel."""
    return next(Path(f"/proc/{pid}/cwd").readlink() for pid, command in others.items() if "mem=" in command)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def descendants_of(pid: int) -> list[int]:
    children = children_of(pid)
    return children + [each for child in children for each in descendants_of(child)]


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


# engines that support both buffered and direct I/O; mmap and splice always use the page cache
BUFFERED_OR_DIRECT = ("sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio")
ENGINES = [
    *((engine, "buffered") for engine in (*BUFFERED_OR_DIRECT, "mmap", "splice")),
    *((engine, "direct") for engine in BUFFERED_OR_DIRECT),
]


def jobs_of(text: str) -> dict[str, dict[str, Any]]:
    """Return the jobs in fio's output by name."""
    return {job["jobname"]: job for job in json_of(text)["jobs"]}


@pytest.mark.parametrize("thread", ["0", "1"])
def test_fios_engines_run_buffered_and_direct_in_threads_and_processes(thread: str) -> None:
    words = ["--size=1m", "--rw=randrw", "--fsync=32", "--iodepth=8", "--verify=crc32c", "--stonewall"]
    words.append(f"--thread={thread}")
    for engine, how in ENGINES:
        words += [f"--name={engine} {how}", f"--ioengine={engine}", f"--direct={int(how == 'direct')}"]
    done = linux("--", *FIO[:1], *FIO[2:], *words)
    assert done.returncode == 0, done.stderr
    jobs = jobs_of(done.stdout)
    assert list(jobs) == [" ".join(each) for each in ENGINES]
    assert [name for name, job in jobs.items() if job["error"]] == []
    assert all(job["read"]["io_bytes"] > 0 and job["write"]["io_bytes"] > 0 for job in jobs.values())


# the host costs no time, like the guest's processor
NO_HOST = tuple(
    f"--set=host.{name}=0" for name in ("submit_time", "page_time", "wakeup_time", "reap_time", "lock_time")
)
# reading the clock costs 256 ns in the guest, and fio reads it three times per synchronous request
CLOCK = "--set=host.wakeup_time=768 ns"
DIRECT = ("--direct=1", "--size=256m", "--norandommap=1", "--number_ios=1000", "--filename={drive}", "--stonewall")
JOBS = {
    "random read": ("--ioengine=psync", "--rw=randread"),
    "sequential read": ("--ioengine=psync", "--rw=read", "--bs=16k"),
    "random write": ("--ioengine=psync", "--rw=randwrite"),
    "random read, 16 deep": ("--ioengine=libaio", "--iodepth=16", "--rw=randread"),
    "random write, 16 deep": ("--ioengine=libaio", "--iodepth=16", "--rw=randwrite"),
}


@pytest.mark.parametrize("deep", [False, True])
def test_latencies_of_direct_jobs_equal_those_of_twin_run(deep: bool, tmp_path: Path) -> None:
    words = [*FIO[:1], *FIO[2:], *DIRECT, "--thread=1"]
    for name, job in JOBS.items():
        words += [f"--name={name}", *job] if ("deep" in name) == deep else []
    in_guest = linux("--fs", "none", "--scheduler", "none", *NO_HOST, *NO_CHARGES, "--", *words)
    assert in_guest.returncode == 0, in_guest.stderr
    host = [*NO_HOST, "--set=host.scheduler=none", *([] if deep else [CLOCK])]
    direct = command("run", "px05smb040", "--state", str(tmp_path), *SMALL, *host, "--", *words)
    found, expected = jobs_of(in_guest.stdout), jobs_of(direct.stdout)
    assert len(found) == (2 if deep else 3)
    for name, result in found.items():
        kind = "write" if "write" in name else "read"
        assert result[kind]["lat_ns"]["mean"] == pytest.approx(expected[name][kind]["lat_ns"]["mean"], rel=0.02), name


@pytest.mark.parametrize("scheduler", schedulers.MODERN_SCHEDULERS)
def test_the_given_scheduler_is_used(scheduler: str) -> None:
    shown = shell("cat /sys/block/vda/queue/scheduler", "--scheduler", scheduler).stdout
    assert f"[{scheduler}]" in shown


def test_settings_of_the_block_layer_are_applied() -> None:
    queue = "cd /sys/block/vda/queue; cat wbt_lat_usec read_ahead_kb max_sectors_kb"
    given = ("--queue", "wbt_lat_usec=0", "--queue", "read_ahead_kb=64", "--queue", "max_sectors_kb=512")
    assert shell(queue, *given).stdout.split() == ["0", "64", "512"]


@pytest.mark.parametrize(("setting", "message"), [("wbt_lat=0", "No such file"), ("read_ahead_kb=much", "Invalid")])
def test_an_invalid_setting_of_the_block_layer_is_reported(setting: str, message: str) -> None:
    done = linux("--queue", setting, "--", "true")
    assert (done.returncode, done.stdout) == (125, "")
    assert f"/sys/block/vda/queue/{setting.partition('=')[0]} does not accept" in done.stderr
    assert message in done.stderr


def largest_depth(trace: Path) -> int:
    events = [(int(row["time_ns"]), 1) for row in rows(trace)] + [(int(row["completed_ns"]), -1) for row in rows(trace)]
    return max(itertools.accumulate(change for _, change in sorted(events)))


def test_the_queue_depth_limits_the_requests_at_the_drive(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    words = ("--ioengine=libaio", "--iodepth=64", "--rw=randread", *DIRECT)
    fio(*words, options=("--fs", "none", "--queue-depth", "8", "--trace", str(trace)))
    assert largest_depth(trace) == 8


def test_sleeping_takes_virtual_time_only() -> None:
    done = shell("date +%s; sleep 3600; date +%s")
    begin, end = (int(line) for line in done.stdout.split())
    assert end - begin in (3600, 3601)
    assert begin - datetime(2030, 1, 1, tzinfo=UTC).timestamp() < 5


def test_a_command_that_never_ends_is_reported() -> None:
    done = linux("--wall-limit", "5 s", "--", "sleep", "infinity")
    assert done.returncode in (124, 125)
    assert "twin: error: " in done.stderr


def test_dropping_caches_makes_reads_go_to_the_drive_again(tmp_path: Path) -> None:
    def read_bytes(between: str) -> int:
        trace = tmp_path / "trace.csv"
        made = f"head -c 1000000 /dev/zero > a; cat {twin_linux.DROP_CACHES_FILE}"
        shell(
            f"{made}; cat a > /dev/null; {between}; cat a > /dev/null",
            "--drop-caches",
            "--trace",
            str(trace),
            "--overwrite",
        )
        return sum(int(row["size_bytes"]) for row in rows(trace) if row["operation"] == "read")

    assert read_bytes(f"cat {twin_linux.DROP_CACHES_FILE}") > read_bytes("true") + 900_000


def test_a_drive_without_write_cache_is_not_flushed(tmp_path: Path) -> None:
    state = ["--state", str(tmp_path / "state")]
    flushes = []
    for setting in ("--set=WCE", "--clear=WCE"):
        changed = command("run", "px05smb040", *state, "--", "sdparm", "--quiet", setting, "{drive}")
        assert changed.returncode == 0, changed.stderr
        trace = tmp_path / "trace.csv"
        words = [*state, "--trace", str(trace), "--overwrite"]
        done = shell("cat /sys/block/vda/queue/write_cache; echo x > a; sync", *words)
        flushes.append((done.stdout.strip(), "flush" in trace.read_text()))
    assert flushes == [("write back", True), ("write through", False)]
