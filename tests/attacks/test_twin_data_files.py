"""fio on a twin touches no file of the user's: each way to name one is refused before anything happens to it."""

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from loops import loop_device
from twins import TWIN, run

from iopatterns import twin
from iopatterns.twin.running import command_on_drive, prepare_environment

DRIVE = "/dev/twin-px05smb040"
SMALL = ["--size=64k", "--bs=4k"]


@dataclass
class Home:
    """A user's folder with a file in it, its state of a twin elsewhere, and what must stay as it was."""

    folder: Path
    state: Path

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.file = self.folder / "thesis"
        self.file.write_bytes(os.urandom(100_000))
        os.utime(self.file, ns=(1_000_000_000, 1_000_000_000))
        self.before = self.look()

    def look(self) -> dict[str, tuple[int, int, bytes]]:
        """Return each name below the folder with kind, modification time and content."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            at = path.lstat()
            found[str(path)] = (at.st_mode, at.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        return found

    def written(self, name: str, text: str) -> Path:
        """Write a file that belongs to what is tried, and return its path."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        self.before = self.look()
        return path

    def twin_run(self, *words: str, keep_data: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a command on a twin, in the folder."""
        options = ["--keep-data"] if keep_data else []
        return subprocess.run(
            [*TWIN, "run", "px05smb040", "--state", str(self.state), *options, "--", *words],
            cwd=self.folder, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def assert_refused(self, done: subprocess.CompletedProcess[str], says: str = "") -> None:
        """Hold that it ended with status 2 and a line, and that nothing is new, gone or changed."""
        assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
        line = done.stderr.strip().splitlines()[-1]
        assert line.startswith("twin")
        assert says in line
        assert "Traceback" not in done.stderr
        assert self.look() == self.before


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home", tmp_path / "state")


# What changes a file, or reads it as if it were a drive.
WORKLOADS = {
    **{rw: [f"--rw={rw}"] for rw in ("read", "write", "randread", "randwrite", "randrw", "trim", "randtrim")},
    "trimwrite": ["--rw=trimwrite"],
    "direct": ["--rw=write", "--direct=1"],
    "overwrite": ["--rw=write", "--overwrite=1"],
    "append": ["--rw=write", "--file_append=1"],
    "create only": ["--rw=write", "--create_only=1"],
    "create on open": ["--rw=write", "--create_on_open=1"],
    "unlink": ["--rw=read", "--unlink=1"],
    "unlink in each loop": ["--rw=read", "--unlink_each_loop=1", "--loops=2"],
    "no creation": ["--rw=write", "--allow_file_create=0"],
    "larger than it is": ["--rw=read", "--size=1m"],
    "several files": ["--rw=write", "--nrfiles=4"],
    "truncate": ["--rw=write", "--fallocate=truncate", "--size=1m"],
    "libaio": ["--rw=randwrite", "--ioengine=libaio"],
    "sync": ["--rw=randread", "--ioengine=sync"],
    "vsync": ["--rw=read", "--ioengine=vsync"],
    "mmap": ["--rw=randread", "--ioengine=mmap"],
    "splice": ["--rw=read", "--ioengine=splice"],
    "filecreate": ["--ioengine=filecreate", "--fallocate=none"],
    "filestat": ["--ioengine=filestat", "--fallocate=none"],
    "filedelete": ["--ioengine=filedelete", "--fallocate=none"],
    "falloc": ["--ioengine=falloc", "--rw=write"],
    "ftruncate": ["--ioengine=ftruncate", "--rw=write"],
    "a state of verifying": ["--rw=write", "--verify=crc32c", "--do_verify=0"],
}


# What is asked of the file makes no difference to how the command line is read.
@pytest.mark.parametrize("name", ["read", "write", "trim", "create only", "unlink", "no creation", "filedelete"])
def test_a_file_of_the_user_s_is_refused_and_stays(name: str, home: Home) -> None:
    job = ["fio", "--name=job", f"--filename={home.file}", *SMALL, *WORKLOADS[name]]
    home.assert_refused(home.twin_run(*job, keep_data=True))


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_library_alone_keeps_fio_off_it_as_well(name: str, home: Home) -> None:
    job = ["fio", "--thread=1", "--clocksource=clock_gettime", "--name=job", f"--filename={home.file}", *SMALL]
    home.assert_refused(home.twin_run("sh", "-c", shlex.join([*job, *WORKLOADS[name]]) + "; exit $?", keep_data=True))


def names(home: Home) -> dict[str, list[str]]:
    """Return ways to name a file, each with a link, job file or log that it needs."""
    thesis = str(home.file)
    (home.folder / "link").symlink_to(home.file)
    os.link(home.file, home.folder / "second-name")
    job = home.written("job.fio", "[global]\nfilename=thesis\n[job]\nrw=write\nsize=64k\n")
    by_variable = home.written("variable.fio", "[job]\n${WHAT}=${WHERE}\nrw=write\nsize=64k\n")
    home.written("parts/part.inc", "filename=thesis\n")
    included = home.written("included.fio", f"[job]\nfilename={DRIVE}\ninclude parts/part.inc\nrw=write\nsize=64k\n")
    nothing = home.written("nothing.fio", "[job]\nrw=write\nsize=64k\n")
    two = home.written("two.fio", f"[a]\nfilename={DRIVE}\nrw=read\nsize=64k\n[b]\nfilename={thesis}\nrw=write\n")
    job_name = ["--name=job", "--rw=write"]
    replay = ["--name=job", f"--filename={DRIVE}"]
    logs = {
        "2": f"fio version 2 iolog\n{thesis} add\n{thesis} open\n{thesis} write 0 4096\n{thesis} close\n",
        "3": f"fio version 3 iolog\n0 {thesis} add\n0 {thesis} open\n1 {thesis} write 0 4096\n2 {thesis} close\n",
        "2 among others": f"fio version 2 iolog\n{DRIVE} add\n{thesis} add\n{thesis} open\n{thesis} write 0 4096\n",
    }
    replays = {
        f"log of version {name}": [*replay, f"--read_iolog={home.written(f'{name}.log'.replace(' ', '-'), text)}"]
        for name, text in logs.items()
    }
    return {
        "in the current folder": [*job_name, "--filename=thesis"],
        "in two words": [*job_name, "--filename", "thesis"],
        "with one dash": ["-name=job", "-rw=write", "-filename", "thesis"],
        "abbreviated": [*job_name, "--filen=thesis"],
        "before the job": ["--filename=thesis", *job_name],
        "beside the drive": [*job_name, f"--filename={DRIVE}:thesis"],
        "in front of the drive": [*job_name, f"--filename=thesis:{DRIVE}"],
        "as a second option": [*job_name, f"--filename={DRIVE}", "--filename=thesis"],
        "in the second job": [*job_name, f"--filename={DRIVE}", "--name=second", "--rw=write", "--filename=thesis"],
        "by a symbolic link": [*job_name, "--filename=link"],
        "by a hard link": [*job_name, "--filename=second-name"],
        "not at all": job_name,
        "not at all, for four files": [*job_name, "--nrfiles=4", "--filename_format=thesis"],
        "as the job": ["--name=thesis", "--rw=write", "--filename_format=$jobname"],
        "by the folder": [*job_name, f"--directory={home.folder}", "--filename_format=thesis"],
        "by a folder in front of the drive": [*job_name, "--directory=.", f"--filename={DRIVE}"],
        "by opening the folder": [*job_name, f"--opendir={home.folder}"],
        "as memory": [*job_name, f"--filename={DRIVE}", f"--mem=mmap:{thesis}"],
        "as shared memory": [*job_name, f"--filename={DRIVE}", f"--iomem=mmapshared:{thesis}"],
        "as the goal of a replay": [*replays["log of version 2"], "--replay_redirect=thesis"],
        "as a pipe": [*job_name, "--filename=-"],
        "the drive by a detour": [*job_name, f"--filename=/dev/..{DRIVE}"],
        "in a job file": [str(job)],
        "in a job file by a variable": [str(by_variable)],
        "in an included file": [str(included)],
        "in the second section": [str(two)],
        "in no job file": [str(nothing)],
        **replays,
        "a log that is none": [*replay, f"--read_iolog={thesis}"],
        "a job file that is none": [thesis],
    }


# fmt: off
NAMES = [
    "in the current folder", "in two words", "with one dash", "abbreviated", "before the job", "beside the drive",
    "in front of the drive", "as a second option", "in the second job", "by a symbolic link", "by a hard link",
    "not at all", "not at all, for four files", "as the job", "by the folder", "by a folder in front of the drive",
    "by opening the folder", "as memory", "as shared memory", "as the goal of a replay", "as a pipe",
    "the drive by a detour", "in a job file", "in a job file by a variable", "in an included file",
    "in the second section", "in no job file", "log of version 2", "log of version 3",
    "log of version 2 among others", "a log that is none", "a job file that is none",
]
# fmt: on


@pytest.mark.parametrize("name", NAMES)
def test_however_a_file_is_named_it_is_refused(name: str, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHAT", "filename")
    monkeypatch.setenv("WHERE", str(home.file))
    words = names(home)[name]
    home.before = home.look()
    home.assert_refused(home.twin_run("fio", *words, *(SMALL if words[0].startswith("-") else [])))


def through_the_shell(words: list[str]) -> list[str]:
    options = ["--thread=1", "--clocksource=clock_gettime"]
    return ["sh", "-c", shlex.join(["fio", *options, *words]) + "; exit $?"]


# What fio itself refuses, with a status of its own and without harm.
REFUSED_BY_FIO = ("abbreviated", "as a pipe", "a job file that is none", "a log that is none")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in REFUSED_BY_FIO])
def test_however_a_file_is_named_the_library_alone_refuses_it(
    name: str, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHAT", "filename")
    monkeypatch.setenv("WHERE", str(home.file))
    words = names(home)[name]
    home.before = home.look()
    done = home.twin_run(*through_the_shell([*words, *(SMALL if words[0].startswith("-") else [])]))
    assert done.returncode != 0, done.stdout
    assert home.look() == home.before


def test_a_copy_of_fio_by_another_name_is_kept_to_the_drive(home: Home) -> None:
    copy = home.state / "measuring"
    home.state.mkdir()
    copy.write_bytes(Path("/usr/bin/fio").read_bytes())
    copy.chmod(0o755)
    job = ["--thread=1", "--clocksource=clock_gettime", "--name=job", "--rw=write", *SMALL]
    home.assert_refused(home.twin_run(str(copy), *job, f"--filename={home.file}"))
    home.assert_refused(home.twin_run(str(copy), *job))
    assert home.twin_run(str(copy), *job, f"--filename={DRIVE}").returncode == 0


def test_the_message_names_job_file_and_remedy(home: Home) -> None:
    done = home.twin_run("fio", "--name=first", "--filename=thesis", "--rw=write", *SMALL)
    (line,) = done.stderr.splitlines()
    for part in ("'first'", "'thesis'", "only the drive is simulated", "Give {drive} as the file"):
        assert part in line
    done = home.twin_run("fio", "--name=first", "--rw=write", *SMALL)
    assert "--filename={drive}" in done.stderr
    done = home.twin_run("fio", "--name=a\x1b[31m\nb", f"--filename=x\x1b]0;y\x07{'z' * 5000}", *SMALL)
    (line,) = done.stderr.splitlines()
    assert line.isprintable()
    assert len(line) < 1000


@pytest.mark.parametrize("direct", [0, 1])
def test_loop_devices_are_not_read_in_virtual_time(direct: int, home: Home, tmp_path: Path) -> None:
    with loop_device(tmp_path, size_mib=1) as loop:
        before = loop.checksum()
        job = ["--name=job", f"--filename={loop.device}", "--rw=randread", f"--direct={direct}", *SMALL]
        home.assert_refused(home.twin_run("fio", *job))
        home.assert_refused(home.twin_run(*through_the_shell(job)), says="only the drive is simulated")
        assert loop.checksum() == before


def test_pipes_and_devices_are_not_waited_for(home: Home) -> None:
    os.mkfifo(home.folder / "pipe")
    for words in (
        ["--name=job", "--filename=pipe", "--rw=read", *SMALL],
        ["--name=job", "--filename=/dev/zero", "--rw=read", *SMALL],
        ["--name=job", f"--filename={DRIVE}", "--read_iolog=pipe"],
        ["--name=job", f"--filename={DRIVE}", "--read_iolog=pipe", f"--replay_redirect={DRIVE}"],
        ["--name=job", f"--filename={DRIVE}", "--read_iolog=/dev/zero"],
        ["pipe"],
        ["/dev/zero"],
        ["-"],
    ):
        done = home.twin_run("fio", *words)
        assert done.returncode == 2, (words, done.stderr)
        assert done.stderr.count("\n") == 1
    shell = through_the_shell(["--name=job", "--filename=pipe", "--rw=read", *SMALL])
    assert home.twin_run(*shell).returncode != 0


@pytest.mark.parametrize(
    "content",
    [
        b"[job]\ndescription=" + b"x" * 9000 + b"filename=thesis\n",
        b"[job]\nfilename=" + DRIVE.encode() + b"\0:thesis\n",
        b"[job]\ninclude me.fio\n",
        b"x" * 3_000_000,
        os.urandom(20_000),
        b"[" * 30_000,
    ],
    ids=["a line that fio cuts", "a zero byte", "including itself", "huge", "random bytes", "brackets"],
)
def test_odd_job_files_end_in_a_line(content: bytes, home: Home) -> None:
    (home.folder / "me.fio").write_bytes(content)
    home.before = home.look()
    home.assert_refused(home.twin_run("fio", "me.fio"))


# fmt: off
ENGINES = [
    "null", "cpuio", "net", "netsplice", "rdma", "exec", "filecreate", "filestat", "filedelete", "dircreate",
    "dirstat", "dirdelete", "ftruncate", "falloc", "e4defrag", "mtd", "dev-dax", "libpmem", "pmemblk", "rados",
    "rbd", "gfapi", "nbd", "http", "libiscsi", "nfs", "xnvme", "mmap", "posixaio", "splice", "sg", "io_uring",
    "io_uring_cmd", "external:/tmp/engine.so", "./engine.so", "no-such-engine",
]
# fmt: on


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_without_io_on_the_drive_is_refused(engine: str, tmp_path: Path) -> None:
    environment = prepare_environment("px05smb040", str(tmp_path))
    with pytest.raises(twin.TwinError, match=r"cannot be served.*Use ioengine=libaio or psync"):
        command_on_drive(["fio", "--name=a", "--filename={drive}", f"--ioengine={engine}"], environment)


@pytest.mark.parametrize(
    "options",
    [
        ["--ioengine=null", "--rw=read"],
        ["--ioengine=psync", "--rw=write", "--create_only=1"],
    ],
    ids=["null", "create only"],
)
def test_fio_that_made_no_request_ends_with_a_message(options: list[str], home: Home) -> None:
    job = ["--name=job", f"--filename={DRIVE}", *SMALL, *options]
    done = home.twin_run(*through_the_shell(job))
    home.assert_refused(done, says="made no request on the drive")


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["--help"],
        ["--enghelp"],
        ["--enghelp=libaio"],
        ["--cmdhelp=filename"],
        ["--parse-only", "--name=a", "--filename={drive}", "--rw=read", "--size=1m"],
        ["--showcmd", "job.fio"],
    ],
    ids=lambda words: words[0],
)
def test_fio_that_runs_no_job_works(words: list[str], home: Home) -> None:
    home.written("job.fio", f"[job]\nfilename={DRIVE}\nrw=read\n")
    done = home.twin_run("fio", *words)
    assert done.returncode == 0, done.stderr
    assert "twin" not in done.stderr
    assert home.look() == home.before


def test_what_fio_writes_about_itself_is_written(home: Home, tmp_path: Path) -> None:
    job = ["--name=job", f"--filename={DRIVE}", "--ioengine=psync", *SMALL]
    out = tmp_path / "out"
    out.mkdir()
    logs = [f"--write_{kind}_log={out / kind}" for kind in ("bw", "lat", "iops")]
    wrote = home.twin_run(
        "fio", *job, "--rw=write", *logs, f"--write_iolog={out / 'io.log'}", f"--output={out / 'raw.json'}",
        "--output-format=json",
    )  # fmt: skip
    assert wrote.returncode == 0, wrote.stderr
    assert {path.name for path in out.iterdir()} >= {"io.log", "raw.json", "bw_bw.1.log", "iops_iops.1.log"}
    assert json.loads((out / "raw.json").read_text())["jobs"][0]["write"]["total_ios"] == 16
    again = home.twin_run("fio", "--name=job", f"--read_iolog={out / 'io.log'}", "--ioengine=psync", *SMALL)
    assert again.returncode == 0, again.stderr
    assert home.look() == home.before
    verified = home.twin_run("fio", *job, "--rw=write", "--verify=crc32c", keep_data=True)
    assert verified.returncode == 0, verified.stderr
    assert (home.folder / "local-job-0-verify.state").exists()


def test_the_drive_is_served_however_it_is_rightly_named(home: Home) -> None:
    job = home.written("job.fio", "[global]\nfilename=${WHERE}\nsize=64k\n; a remark\n[a]\nrw=read\n[b]\nrw=write\n")
    environment = {**os.environ, "WHERE": DRIVE}
    done = subprocess.run(
        [*TWIN, "run", "px05smb040", "--state", str(home.state), "--", "fio", str(job), "--output-format=json"],
        cwd=home.folder, capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for words in (
        ["--name=a", "--filename", "{drive}", "--rw", "read"],
        ["-name", "a", "-filename={drive}", "-rw=read"],
        ["--filename={drive}", "--size=64k", "--name=a", "--rw=read", "--name=b", "--rw=write"],
        ["--name={drive}", "--rw=read"],
        ["--name=a", "--filename={drive}", "--rw=read", "--mem=mmap"],
        ["--name=a", "--filename={drive}", "--rw=read", "--thread", "--group_reporting", "--norandommap"],
        ["--name=a", "--filename={drive}", "--rw=write", "--unlink=1", "--overwrite=1", "--create_on_open=1"],
    ):
        done = home.twin_run("fio", *words, *SMALL)
        assert done.returncode == 0, (words, done.stderr, done.stdout)
    assert home.look() == home.before


def test_other_programs_do_with_files_what_they_like(home: Home, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for words in (
        ["cp", str(home.file), str(copy)],
        ["dd", f"if={home.file}", f"of={copy}", "bs=4k", "count=2"],
        [
            sys.executable,
            "-c",
            f"import os; os.rename({str(copy)!r}, {str(copy) + '2'!r}); os.unlink({str(copy) + '2'!r})",
        ],
        ["sdparm", "--get=DRA", "{drive}"],
        ["dd", "if={drive}", f"of={copy}", "bs=4k", "count=1"],
    ):
        done = run(tmp_path / "state", *words)
        assert done.returncode == 0, (words, done.stderr)
    assert copy.stat().st_size == 4096
