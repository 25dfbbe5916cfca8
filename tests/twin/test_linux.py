"""`twin linux`: a real kernel with its file systems on a simulated drive, in virtual time."""

import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import patience
import pytest
from linux_kernel import FIO, SMALL, fio, let_others_in, linux, needs_kernel, rows, shell
from twins import TWIN

from iopatterns.base import schedulers
from iopatterns.twin import linux as twin_linux
from iopatterns.twin import models, traces
from iopatterns.twin.error import TwinError
from iopatterns.twin.trace_replay import replay_trace

# Whether other users may run the Python of these tests, which may lie in someone's home
FOR_ALL = all(folder.stat().st_mode & 0o001 for folder in Path(sys.executable).resolve().parents)
# Most start a kernel
pytestmark = pytest.mark.slow
WRITES = "dd if=/dev/zero of=a bs=4k count=300 conv=fsync status=none; sync; rm a"


def test_a_kernel_that_is_not_built_is_told_with_the_line_that_builds_it(tmp_path: Path) -> None:
    done = linux("--kernel", str(tmp_path / "none"), "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "./reproduce.sh linux" in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--fs", "ntfs"), "'ntfs' is not one of"),
        (("--memory", "much"), "'much' is no size"),
        (("--memory", "1M"), "Give 64 MiB or more"),
        (("--queue-depth", "0"), "Valid is 1 to 128"),
        (("--wall-limit", "0.1 s"), "less than a second"),
        (("--folder", "/no/such"), "no such folder"),
        (("--fs", "none", "--mount-options", "discard"), "leave out"),
        (("--fs", "none", "--fs-size", "1 GiB"), "leave out --mkfs-options, --mount-options and --fs-size"),
        (("--fs-size", "1k"), "Give 1 MiB or more"),
        (("--fs-size", "900 GiB"), "no more than the drive has"),
        (("--trace-all",), "give --trace, too"),
        (("--mkfs-options", "'"), "No closing quotation"),
        (("--keep", "/etc/passwd"), "is there already"),
        (("--trace", "trace.txt"), ".parquet or .csv"),
        (("--set", "capacity.size=no"), "capacity.size"),
        (("--queue", "wbt_lat_usec"), "is no NAME=VALUE"),
        (("--queue", "../../size=1"), "is no NAME=VALUE"),
    ],
)
def test_bad_input_gets_one_message(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    kernel = tmp_path / "linux"
    kernel.touch()
    done = linux("--kernel", str(kernel), *words, "--", "true")
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("word", "told"), [("--sqthread_poll=1", "polls without pause"), ("--clocksource=cpu", "clock_gettime")]
)
def test_fio_is_refused_what_would_stand_still(word: str, told: str, tmp_path: Path) -> None:
    kernel = tmp_path / "linux"
    kernel.touch()
    done = linux("--kernel", str(kernel), "--", "fio", "--name=a", "--ioengine=io_uring", word)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


def test_a_job_file_is_looked_into(tmp_path: Path) -> None:
    job = tmp_path / "job.fio"
    job.write_text("[a]\nioengine=io_uring\nsqthread_poll=1\n")
    with pytest.raises(TwinError, match="sqthread_poll"):
        twin_linux._command(["fio", str(job)])


@needs_kernel
def test_output_and_status_are_those_of_the_command() -> None:
    done = linux("--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")


@needs_kernel
def test_a_command_that_is_killed_ends_with_128_and_the_signal() -> None:
    assert linux("--", "sh", "-c", "kill -9 $$").returncode == 128 + 9


@needs_kernel
def test_a_command_that_is_not_there_is_told() -> None:
    done = linux("--", "no-such-program")
    assert done.returncode == 127
    assert "no-such-program" in done.stderr


@needs_kernel
def test_the_command_is_an_ordinary_user_on_the_drives_file_system() -> None:
    done = shell("id -u; stat -f -c %T .; touch here; uname -s")
    user = "65534" if os.geteuid() == 0 else str(os.geteuid())
    assert done.stdout.split() == [user, "ext2/ext3", "Linux"]


def _needs_mkfs(file_system: str) -> None:
    program = twin_linux.MKFS_PROGRAMS[file_system][0][0]
    if shutil.which(program, path=twin_linux._PATH) is None:
        pytest.skip(f"{program} is not installed")


@needs_kernel
@pytest.mark.parametrize("file_system", ["ext4", "ext3", "ext2", "xfs", "btrfs", "f2fs"])
def test_file_systems_hold_what_is_written(file_system: str) -> None:
    _needs_mkfs(file_system)
    script = "head -c 1000000 /dev/zero | tr '\\0' x > a; sync; md5sum a; grep /mnt/drive /proc/mounts | cut -d' ' -f3"
    expected = hashlib.md5(b"x" * 1_000_000).hexdigest()
    assert shell(script, "--fs", file_system).stdout.split() == [expected, "a", file_system]


@needs_kernel
def test_mount_options_of_all_file_systems_and_of_one_go_together() -> None:
    options = shell("grep /mnt/drive /proc/mounts", "--mount-options", "noatime,discard,nobarrier").stdout.split()[3]
    assert {"noatime", "discard", "nobarrier"} <= set(options.split(","))


@needs_kernel
def test_what_is_written_is_on_the_image_that_is_kept(tmp_path: Path) -> None:
    image = tmp_path / "image"
    shell("echo kept > a", "--keep", str(image))
    found = subprocess.run(["debugfs", "-R", "cat a", image], capture_output=True, text=True, check=True,
                           env={**os.environ, "PATH": twin_linux._PATH})  # fmt: skip
    assert found.stdout == "kept\n"
    checked = subprocess.run(["/sbin/e2fsck", "-fn", image], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
    assert image.stat().st_size == 2**32
    assert image.stat().st_blocks * 512 < 2**28


@needs_kernel
def test_the_trace_has_every_request_of_the_command(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    shell(WRITES, "--mount-options", "discard", "--trace", str(trace))
    found = rows(trace)
    written = sum(int(row["size_bytes"]) for row in found if row["operation"] == "write")
    assert {"write", "flush", "discard"} <= {row["operation"] for row in found}
    assert written >= 300 * 4096
    times = [[int(row[name]) for name in ("time_ns", "dispatched_ns", "completed_ns")] for row in found]
    assert all(queued <= dispatched < completed for queued, dispatched, completed in times)
    assert [row[0] for row in times] == sorted(row[0] for row in times)


HEAD = "operation,offset_bytes,size_bytes,time_ns,dispatched_ns,completed_ns\n"


def written_as_parquet(folder: Path, rows: str) -> pd.DataFrame:
    """Return the trace that is made of what the machine writes, of which ``rows`` are the lines behind the head."""
    wanted = twin_linux.LinuxOptions(trace=folder / "there/trace.parquet")
    with twin_linux._outputs(wanted) as files:
        files["trace"].write((HEAD + rows).encode())
        files["trace"].flush()
    assert wanted.trace is not None
    return pd.read_parquet(wanted.trace)


def test_a_trace_in_parquet_has_the_form_of_all_traces(tmp_path: Path) -> None:
    rows = "write,4096,8192,1000,1200,5000\nflush,0,0,2000,,\n"
    found = written_as_parquet(tmp_path, rows)
    assert list(found["operation"]) == ["write", "flush"]
    assert list(found["size_bytes"]) == [8192, 0]
    assert list(found["time_ns"]) == [0, 1000]
    assert list(found["completed_ns"].astype("Int64").fillna(-1)) == [4000, -1]
    csv = tmp_path / "trace.csv"
    csv.write_text(HEAD + rows)
    traces.convert_trace(csv, tmp_path / "converted.parquet")
    assert (tmp_path / "there/trace.parquet").read_bytes() == (tmp_path / "converted.parquet").read_bytes()


def test_a_command_without_a_request_has_an_empty_trace(tmp_path: Path) -> None:
    found = written_as_parquet(tmp_path, "")
    assert found.empty
    assert list(found) == HEAD.strip().split(",")


@needs_kernel
def test_a_trace_can_be_replayed(tmp_path: Path) -> None:
    trace = tmp_path / "trace.parquet"
    shell(WRITES, "--trace", str(trace))
    done = subprocess.run([*TWIN, "replay", "px05smb040", trace], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counters"]["write_bytes"] >= 300 * 4096


@needs_kernel
def test_a_replay_of_the_whole_trace_is_the_run_itself(tmp_path: Path) -> None:
    """With what mkfs and mount have asked, each request takes to the nanosecond as long as it did."""
    # a drive in a host that takes no time, for a replay has that of its own
    drive = {"capacity.size": "512 MiB"}
    options = ("--mount-options", "discard", "--set", "capacity.size=512 MiB")
    whole, command = tmp_path / "whole.parquet", tmp_path / "command.parquet"
    shell(WRITES, *options, "--trace", str(whole), "--trace-all", model="wiscsim")
    shell(WRITES, *options, "--trace", str(command), model="wiscsim")
    recorded = pd.read_parquet(whole)
    assert len(recorded) > len(pd.read_parquet(command)) > 0
    done = (
        replay_trace(models.load_model("wiscsim").with_values(drive, ""), whole)
        .latencies.set_index("request")
        .sort_index()
    )
    over_ns = (done["issue_ns"] + done["latency_ns"]).to_numpy() + recorded["time_ns"].iloc[0]
    assert (over_ns == recorded["completed_ns"].to_numpy()).all()


@needs_kernel
@pytest.mark.parametrize("file_system", ["ext4", "ext2", "xfs", "btrfs", "f2fs"])
def test_a_file_system_has_the_size_that_is_asked_for(file_system: str) -> None:
    _needs_mkfs(file_system)
    size_of = "df --block-size=1M --output=size . | tail -n 1"
    size_mib = int(shell(size_of, "--fs", file_system, "--fs-size", "400 MiB").stdout)
    assert 300 <= size_mib <= 400 < int(shell(size_of, "--fs", file_system).stdout)


@needs_kernel
def test_counters_are_those_of_the_drive(tmp_path: Path) -> None:
    counters = tmp_path / "counters.parquet"
    shell(WRITES, "--counters", str(counters), "--interval", "1 ms")
    series = pd.read_parquet(counters).groupby("series", observed=True)["value"].max()
    assert series["write_bytes"] >= 300 * 4096
    assert 1 <= series["queue_depth"] <= 32


def repeated(folder: Path, **how: object) -> tuple[str, bytes]:
    """Return what a workload of threads, fsync and discards prints, and its trace."""
    folder.mkdir()
    folder.chmod(0o777)  # for another user
    trace = folder / "trace.csv"
    job = ("--ioengine=psync", "--thread=1", "--numjobs=4", "--size=2m", "--rw=randwrite", "--fsync=10", "--unlink=1")
    done = linux("--mount-options", "discard", "--trace", str(trace), "--state", str(folder), "--", *FIO, *job, **how)  # type: ignore[arg-type]
    assert done.returncode == 0, done.stderr
    return done.stdout, trace.read_bytes()


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    return repeated(tmp_path_factory.mktemp("reference") / "a")


@needs_kernel
def test_the_same_workload_gives_the_same_trace_and_output(reference: tuple[str, bytes], tmp_path: Path) -> None:
    assert reference[1].count(b"\n") > 100
    assert repeated(tmp_path / "a") == reference


@needs_kernel
def test_it_does_so_on_a_busy_machine_elsewhere(reference: tuple[str, bytes], tmp_path: Path) -> None:
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        environment = {"TZ": "Asia/Kathmandu", "LC_ALL": "de_DE.UTF-8", "LONG": "x" * 5000}
        found = repeated(tmp_path / "a", environment=environment, umask=0o077)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert found == reference


@needs_kernel
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.skipif(not FOR_ALL, reason="another user may not run this Python")
def test_it_does_so_for_another_user(reference: tuple[str, bytes], tmp_path: Path) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        found = repeated(folder / "a", user=4242, group=4242, extra_groups=[], umask=0, environment={"HOME": name})
    assert found == reference


@needs_kernel
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide a file of the system")
def test_it_does_so_where_programs_look_elsewhere_for_their_libraries(
    reference: tuple[str, bytes], tmp_path: Path
) -> None:
    hidden = 'mount --bind /dev/null /etc/ld.so.cache && exec "$@"'
    assert repeated(tmp_path / "a", within=("unshare", "--mount", "sh", "-c", hidden, "sh")) == reference


@needs_kernel
def test_requests_do_not_depend_on_what_else_is_in_the_guests_memory(tmp_path: Path) -> None:
    """Of much more than may wait to be written, so that the kernel begins when there is too much of it."""
    job = shlex.join([*FIO, "--rw=write", "--bs=64k", "--size=250m", "--ioengine=psync", "--numjobs=2", "--thread=1"])
    libraries = "cat /usr/lib/*/lib*.so* | head -c 30000000 > /dev/null"
    asked = {}
    for name, before in {"nothing": ":", "libraries": libraries, "variable": "a=$(seq 200000)"}.items():
        trace = tmp_path / f"{name}.csv"
        shell(f"{before}; {job} > /dev/null", "--trace", str(trace))
        found = rows(trace)
        asked[name] = [(row["operation"], row["offset_bytes"], row["size_bytes"]) for row in found]
        assert max(int(row["size_bytes"]) for row in found) > 256 * 4096
    assert asked["libraries"] == asked["variable"] == asked["nothing"]


@needs_kernel
def test_a_call_that_fails_takes_no_time_unless_it_is_made_again_and_again() -> None:
    asked = "i=0; while [ $i -lt 500 ]; do i=$((i + 1)); test -e /none$i || :; done"
    done = shell(f"date +%s%N; date +%s%N; {asked}; date +%s%N; (sleep 0.01; : > made) & until [ -e made ]; do :; done")
    first, second, third = map(int, done.stdout.split())
    assert third - second == second - first


CLOCKS = """
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int main() {  // prints what each reading is later than the one before: nine by the vDSO, then one by a system call
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


@needs_kernel
def test_reading_the_clock_takes_the_same_time_with_and_without_a_system_call(tmp_path: Path) -> None:
    source, program = tmp_path / "clocks.cc", tmp_path / "clocks"
    source.write_text(CLOCKS)
    subprocess.run(["g++", "-O1", "-o", program, source], check=True)
    let_others_in(tmp_path)
    done = shell(f"grep -c '^[0-9a-f-]* rw-s .*vvar' /proc/self/maps; {program}")
    mapped, *steps_ns = map(int, done.stdout.split())
    assert mapped == 1
    assert set(steps_ns) == {256}


@needs_kernel
def test_a_program_reads_the_clock_by_itself_until_something_is_due() -> None:
    """A timer ends at its time in the middle of readings."""
    script = (
        "import signal, time; due = []; signal.signal(signal.SIGALRM, lambda *_: due.append(time.monotonic_ns()));"
        " begun = time.monotonic_ns(); signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
        "while not due: time.monotonic_ns()\n"
        "print(due[0] - begun)"
    )
    done = shell(f"/usr/bin/python3 -c {shlex.quote(script)}")
    # within one tick of the guest's clock, of 4 ms
    assert 50_000_000 <= int(done.stdout) < 54_000_000


@needs_kernel
def test_another_seed_gives_another_file_system(tmp_path: Path) -> None:
    uuids = {shell("blkid -o value -s UUID /dev/vda", "--seed", seed).stdout for seed in ("1", "1", "2")}
    assert len(uuids) == 2


def leftovers() -> set[Path]:
    return {path for folder in ("/dev/shm", "/tmp", "/var/tmp") for path in Path(folder).glob("twin-linux-*")}


@needs_kernel
@pytest.mark.parametrize("script", ["while :; do :; done", "while :; do date > /dev/null; done"])
def test_a_program_that_spins_is_ended_at_the_wall_limit(script: str) -> None:
    # the guest has to start within it, also on a busy machine
    limit_s = round(4 * patience.slowness())
    done = linux("--wall-limit", f"{limit_s} s", "--", "sh", "-c", f"echo before; {script}", timeout_s=limit_s + 60)
    assert done.returncode == 124
    assert "wall limit" in done.stderr
    assert done.stdout == "before\n"


@needs_kernel
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("whom", ["command line", "machine", "kernel"])
def test_nothing_is_left_behind(number: signal.Signals, whom: str, tmp_path: Path) -> None:
    before = leftovers()
    argv = [*TWIN, "linux", *SMALL, "px05smb040", "--", "sh", "-c", "echo begun; while :; do :; done"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        machine = children_of(process.pid)[0]
        kernel = next(pid for pid in children_of(machine) if "mem=" in command_of(pid))
        group = children_of(kernel)
        os.kill({"command line": process.pid, "machine": machine, "kernel": kernel}[whom], number)
        process.stdout.read()
    assert group
    patience.wait_for(lambda: not [pid for pid in (machine, kernel, *group) if alive(pid)], 10)
    patience.wait_for(lambda: leftovers() <= before, 10)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


# fio's engines, buffered and direct, as threads and as processes; mmap and splice go through the page cache themselves
# Those that go through the page cache or not, as they are asked to
EITHER = ("sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio")
ENGINES = [
    *((engine, "buffered") for engine in (*EITHER, "mmap", "splice")),
    *((engine, "direct") for engine in EITHER),
]


def jobs_of(text: str) -> dict[str, dict[str, Any]]:
    """Return what fio has written, by job."""
    content = json.JSONDecoder().raw_decode(text[text.index("{") :])[0]
    return {job["jobname"]: job for job in content["jobs"]}


@needs_kernel
@pytest.mark.parametrize("thread", ["0", "1"])
def test_fios_engines(thread: str) -> None:
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


# With these a host costs nothing, as the guest's processor does: what is left is the drive
NO_HOST = tuple(
    f"--set=host.{name}=0" for name in ("submit_time", "page_time", "wakeup_time", "reap_time", "lock_time")
)
# But for what reading the clock costs in the guest (256 ns), which fio does three times for a synchronous request
CLOCK = "--set=host.wakeup_time=768 ns"
DIRECT = ("--direct=1", "--size=256m", "--norandommap=1", "--number_ios=1000", "--filename={drive}", "--stonewall")
JOBS = {
    "random read": ("--ioengine=psync", "--rw=randread"),
    "sequential read": ("--ioengine=psync", "--rw=read", "--bs=16k"),
    "random write": ("--ioengine=psync", "--rw=randwrite"),
    "random read, 16 deep": ("--ioengine=libaio", "--iodepth=16", "--rw=randread"),
    "random write, 16 deep": ("--ioengine=libaio", "--iodepth=16", "--rw=randwrite"),
}


@needs_kernel
@pytest.mark.parametrize("deep", [False, True])
def test_direct_jobs_agree_with_twin_run(deep: bool, tmp_path: Path) -> None:
    words = [*FIO[:1], *FIO[2:], *DIRECT, "--thread=1"]
    for name, job in JOBS.items():
        words += [f"--name={name}", *job] if ("deep" in name) == deep else []
    mine = linux("--fs", "none", "--scheduler", "none", *NO_HOST, "--", *words)
    assert mine.returncode == 0, mine.stderr
    host = [*NO_HOST, "--set=host.scheduler=none", *([] if deep else [CLOCK])]
    argv = [*TWIN, "run", "px05smb040", "--state", str(tmp_path), *SMALL, *host, "--", *words]
    other = subprocess.run(argv, capture_output=True, text=True, check=True)
    ours, theirs = jobs_of(mine.stdout), jobs_of(other.stdout)
    assert len(ours) == (2 if deep else 3)
    for name, found in ours.items():
        kind = "write" if "write" in name else "read"
        expected = theirs[name][kind]["lat_ns"]["mean"]
        assert found[kind]["lat_ns"]["mean"] == pytest.approx(expected, rel=0.02), name


@needs_kernel
@pytest.mark.parametrize("scheduler", schedulers.MODERN_SCHEDULERS)
def test_the_scheduler_that_is_asked_for_is_used(scheduler: str) -> None:
    shown = shell("cat /sys/block/vda/queue/scheduler", "--scheduler", scheduler).stdout
    assert f"[{scheduler}]" in shown


@needs_kernel
def test_other_settings_of_the_block_layer_are_set() -> None:
    queue = "cd /sys/block/vda/queue; cat wbt_lat_usec read_ahead_kb max_sectors_kb"
    given = ("--queue", "wbt_lat_usec=0", "--queue", "read_ahead_kb=64", "--queue", "max_sectors_kb=512")
    assert shell(queue, *given).stdout.split() == ["0", "64", "512"]


@needs_kernel
@pytest.mark.parametrize(("setting", "told"), [("wbt_lat=0", "No such file"), ("read_ahead_kb=much", "Invalid")])
def test_a_setting_that_the_block_layer_does_not_have_or_take_is_told(setting: str, told: str) -> None:
    done = linux("--queue", setting, "--", "true")
    assert (done.returncode, done.stdout) == (125, "")
    assert f"/sys/block/vda/queue/{setting.partition('=')[0]} does not accept" in done.stderr
    assert told in done.stderr


@needs_kernel
def test_no_more_requests_are_at_the_drive_than_it_has_room_for(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    words = ("--ioengine=libaio", "--iodepth=64", "--rw=randread", *DIRECT)
    fio(*words, options=("--fs", "none", "--queue-depth", "8", "--trace", str(trace)))
    events = sorted(
        event for row in rows(trace) for event in ((int(row["time_ns"]), 1), (int(row["completed_ns"]), -1))
    )
    depth = most = 0
    for _, change in events:
        depth += change
        most = max(most, depth)
    assert most == 8


@needs_kernel
def test_time_is_virtual() -> None:
    done = shell("date +%s; sleep 3600; date +%s")
    begin, end = (int(line) for line in done.stdout.split())
    assert end - begin in (3600, 3601)
    assert begin - 1767225600 < 5


@needs_kernel
def test_a_command_that_waits_for_ever_is_told() -> None:
    done = linux("--wall-limit", "5 s", "--", "sleep", "infinity")
    assert done.returncode in (124, 125)
    assert "twin: error: " in done.stderr


@needs_kernel
def test_what_was_read_is_read_from_the_drive_again_once_the_caches_are_dropped(tmp_path: Path) -> None:
    def read_bytes(between: str) -> int:
        trace = tmp_path / "trace.csv"
        made = f"head -c 1000000 /dev/zero > a; cat {twin_linux.DROP_CACHES_FILE}"
        shell(f"{made}; cat a > /dev/null; {between}; cat a > /dev/null", "--drop-caches", "--trace", str(trace))
        return sum(int(row["size_bytes"]) for row in rows(trace) if row["operation"] == "read")

    assert read_bytes(f"cat {twin_linux.DROP_CACHES_FILE}") > read_bytes("true") + 900_000


@needs_kernel
def test_a_drive_whose_write_cache_is_off_is_not_flushed(tmp_path: Path) -> None:
    """As in `twin run`: the kernel knows of the cache what the drive's mode page says."""
    state = ["--state", str(tmp_path / "state")]
    flushes = []
    for setting in ("--set=WCE", "--clear=WCE"):
        changed = subprocess.run(
            [*TWIN, "run", "px05smb040", *state, "--", "sdparm", "--quiet", setting, "{drive}"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert changed.returncode == 0, changed.stderr
        trace = tmp_path / "trace.csv"
        script = "cat /sys/block/vda/queue/write_cache; echo x > a; sync"
        done = shell(script, *state, "--trace", str(trace))
        assert done.returncode == 0, done.stderr
        flushes.append((done.stdout.strip(), "flush" in trace.read_text()))
    assert flushes == [("write back", True), ("write through", False)]
