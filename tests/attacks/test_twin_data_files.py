"""fio on a simulated drive changes no file of the user: however a file is given, it is refused first."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from loops import loop_device
from twins import TWIN, run

from iopatterns import twin
from iopatterns.twin.running import command_on_drive, prepare_environment

DRIVE = "/dev/twin-px05smb040"
SMALL = ["--size=64k", "--bs=4k"]


class Home:
    """A user's folder with a file that must not change, and a state folder elsewhere."""

    def __init__(self, folder: Path, state: Path) -> None:
        self.folder = folder
        self.state = state
        self.folder.mkdir()
        self.file = self.folder / "thesis"
        self.file.write_bytes(os.urandom(100_000))
        os.utime(self.file, ns=(1_000_000_000, 1_000_000_000))
        self.before = self.snapshot()

    def snapshot(self) -> dict[str, tuple[int, int, bytes]]:
        """Return mode, modification time and content of everything in the folder, by path."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            at = path.lstat()
            found[str(path)] = (at.st_mode, at.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        return found

    def write(self, name: str, text: str) -> None:
        """Write a file that belongs to the test."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        self.before = self.snapshot()

    def twin_run(self, *words: str, keep_data: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a command on a simulated drive, in the folder."""
        options = ["--keep-data"] if keep_data else []
        return subprocess.run(
            [*TWIN, "run", "px05smb040", "--state", str(self.state), *options, "--", *words],
            cwd=self.folder, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def assert_refused(self, done: subprocess.CompletedProcess[str], message: str = "") -> None:
        """Assert that a command ended with status 2 and a message, and that the folder is unchanged."""
        assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
        line = done.stderr.strip().splitlines()[-1]
        assert line.startswith("twin")
        assert message in line
        assert "Traceback" not in done.stderr
        assert self.snapshot() == self.before


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home", tmp_path / "state")


# workloads that would change a file, or read it as if it were a drive
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
    "verification state": ["--rw=write", "--verify=crc32c", "--do_verify=0"],
}


# the check of the command line does not depend on the workload, so a few workloads suffice
@pytest.mark.parametrize("name", ["read", "write", "trim", "create only", "unlink", "no creation", "filedelete"])
def test_the_command_line_check_refuses_a_file_of_the_user(name: str, home: Home) -> None:
    job = ["fio", "--name=job", f"--filename={home.file}", *SMALL, *WORKLOADS[name]]
    home.assert_refused(home.twin_run(*job, keep_data=True))


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_library_refuses_a_file_of_the_user(name: str, home: Home) -> None:
    job = ["--name=job", f"--filename={home.file}", *SMALL, *WORKLOADS[name]]
    home.assert_refused(home.twin_run(*by_a_shell(job), keep_data=True))


def by_a_shell(words: list[str]) -> list[str]:
    """Return a command that runs fio in a shell, where `twin run` cannot check its command line."""
    options = ["--thread=1", "--clocksource=clock_gettime"]
    return ["sh", "-c", shlex.join(["fio", *options, *words]) + "; exit $?"]


FILES = {
    "job.fio": "[global]\nfilename=thesis\n[job]\nrw=write\nsize=64k\n",
    "variable.fio": "[job]\n${WHAT}=${WHERE}\nrw=write\nsize=64k\n",
    "parts/part.inc": "filename=thesis\n",
    "included.fio": f"[job]\nfilename={DRIVE}\ninclude parts/part.inc\nrw=write\nsize=64k\n",
    "nothing.fio": "[job]\nrw=write\nsize=64k\n",
    "two.fio": f"[a]\nfilename={DRIVE}\nrw=read\nsize=64k\n[b]\nfilename=THESIS\nrw=write\n",
    "2.log": "fio version 2 iolog\nTHESIS add\nTHESIS open\nTHESIS write 0 4096\nTHESIS close\n",
    "3.log": "fio version 3 iolog\n0 THESIS add\n0 THESIS open\n1 THESIS write 0 4096\n2 THESIS close\n",
    "both.log": f"fio version 2 iolog\n{DRIVE} add\nTHESIS add\nTHESIS open\nTHESIS write 0 4096\n",
}
WRITE = ["--name=job", "--rw=write"]
REPLAY = ["--name=job", f"--filename={DRIVE}"]
# Ways to give the file to fio; THESIS stands for its path
WAYS = {
    "in the current folder": [*WRITE, "--filename=thesis"],
    "in two words": [*WRITE, "--filename", "thesis"],
    "with one dash": ["-name=job", "-rw=write", "-filename", "thesis"],
    "abbreviated": [*WRITE, "--filen=thesis"],
    "before the job": ["--filename=thesis", *WRITE],
    "after the drive": [*WRITE, f"--filename={DRIVE}:thesis"],
    "before the drive": [*WRITE, f"--filename=thesis:{DRIVE}"],
    "as a second option": [*WRITE, f"--filename={DRIVE}", "--filename=thesis"],
    "in the second job": [*WRITE, f"--filename={DRIVE}", "--name=second", "--rw=write", "--filename=thesis"],
    "by a symbolic link": [*WRITE, "--filename=link"],
    "by a hard link": [*WRITE, "--filename=second-name"],
    "not at all": WRITE,
    "not at all, for four files": [*WRITE, "--nrfiles=4", "--filename_format=thesis"],
    "as the job": ["--name=thesis", "--rw=write", "--filename_format=$jobname"],
    "by the folder": [*WRITE, "--directory=.", "--filename_format=thesis"],
    "by a folder and the drive": [*WRITE, "--directory=.", f"--filename={DRIVE}"],
    "by opening the folder": [*WRITE, "--opendir=."],
    "as memory": [*WRITE, f"--filename={DRIVE}", "--mem=mmap:THESIS"],
    "as shared memory": [*WRITE, f"--filename={DRIVE}", "--iomem=mmapshared:THESIS"],
    "as the target of a replay": [*REPLAY, "--read_iolog=2.log", "--replay_redirect=thesis"],
    "as a pipe": [*WRITE, "--filename=-"],
    "as another path of the drive": [*WRITE, f"--filename=/dev/..{DRIVE}"],
    "in a job file": ["job.fio"],
    "in a job file by a variable": ["variable.fio"],
    "in an included file": ["included.fio"],
    "in the second section": ["two.fio"],
    "in no job file": ["nothing.fio"],
    "in a log of version 2": [*REPLAY, "--read_iolog=2.log"],
    "in a log of version 3": [*REPLAY, "--read_iolog=3.log"],
    "in a log after the drive": [*REPLAY, "--read_iolog=both.log"],
    "as a log": [*REPLAY, "--read_iolog=THESIS"],
    "as a job file": ["THESIS"],
}
# fio itself refuses these, with another status and without harm
REFUSED_BY_FIO = ("abbreviated", "as a pipe", "as a log", "as a job file")


def words_of(way: str, home: Home, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the arguments of fio, and create the files that they need."""
    monkeypatch.setenv("WHAT", "filename")
    monkeypatch.setenv("WHERE", str(home.file))
    (home.folder / "link").symlink_to(home.file)
    os.link(home.file, home.folder / "second-name")
    for name, text in FILES.items():
        home.write(name, text.replace("THESIS", str(home.file)))
    words = [word.replace("THESIS", str(home.file)) for word in WAYS[way]]
    return [*words, *(SMALL if words[0].startswith("-") else [])]


@pytest.mark.parametrize("way", WAYS)
def test_a_file_is_refused_however_it_is_given(way: str, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.assert_refused(home.twin_run("fio", *words_of(way, home, monkeypatch)))


@pytest.mark.parametrize("way", [way for way in WAYS if way not in REFUSED_BY_FIO])
def test_the_library_refuses_a_file_however_it_is_given(way: str, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    done = home.twin_run(*by_a_shell(words_of(way, home, monkeypatch)))
    assert done.returncode != 0, done.stdout
    assert home.snapshot() == home.before


def test_a_renamed_copy_of_fio_can_use_only_the_drive(home: Home) -> None:
    copy = home.state.with_name("measuring")
    copy.write_bytes(Path("/usr/bin/fio").read_bytes())
    copy.chmod(0o755)
    job = ["--thread=1", "--clocksource=clock_gettime", "--name=job", "--rw=write", *SMALL]
    home.assert_refused(home.twin_run(str(copy), *job, f"--filename={home.file}"))
    home.assert_refused(home.twin_run(str(copy), *job))
    assert home.twin_run(str(copy), *job, f"--filename={DRIVE}").returncode == 0


def test_the_message_has_the_job_the_file_and_the_remedy(home: Home) -> None:
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
def test_loop_devices_are_refused(direct: int, home: Home, tmp_path: Path) -> None:
    with loop_device(tmp_path, size_mib=1) as loop:
        before = loop.checksum()
        job = ["--name=job", f"--filename={loop.device}", "--rw=randread", f"--direct={direct}", *SMALL]
        home.assert_refused(home.twin_run("fio", *job))
        home.assert_refused(home.twin_run(*by_a_shell(job)), message="only the drive is simulated")
        assert loop.checksum() == before


def test_pipes_and_devices_are_refused_without_waiting(home: Home) -> None:
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
    shell = by_a_shell(["--name=job", "--filename=pipe", "--rw=read", *SMALL])
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
    ids=["a line that fio splits", "a zero byte", "including itself", "huge", "random bytes", "brackets"],
)
def test_invalid_job_files_are_refused(content: bytes, home: Home) -> None:
    (home.folder / "me.fio").write_bytes(content)
    home.before = home.snapshot()
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
def test_an_engine_that_does_not_use_the_drive_is_refused(engine: str, tmp_path: Path) -> None:
    environment = prepare_environment("px05smb040", str(tmp_path))
    with pytest.raises(twin.TwinError, match=r"not supported.*Use ioengine=libaio or psync"):
        command_on_drive(["fio", "--name=a", "--filename={drive}", f"--ioengine={engine}"], environment)


@pytest.mark.parametrize("options", [["--ioengine=null", "--rw=read"], ["--rw=write", "--create_only=1"]], ids=str)
def test_fio_without_requests_ends_with_a_message(options: list[str], home: Home) -> None:
    done = home.twin_run(*by_a_shell(["--name=job", f"--filename={DRIVE}", *SMALL, *options]))
    home.assert_refused(done, "made no request on the drive")


@pytest.mark.parametrize(
    "words",
    [
        *(["--version"], ["--help"], ["--enghelp"], ["--enghelp=libaio"], ["--cmdhelp=filename"]),
        ["--parse-only", "--name=a", "--filename={drive}", "--rw=read", "--size=1m"],
        ["--showcmd", "job.fio"],
    ],
    ids=lambda words: words[0],
)
def test_options_of_fio_without_jobs_work(words: list[str], home: Home) -> None:
    home.write("job.fio", f"[job]\nfilename={DRIVE}\nrw=read\n")
    done = home.twin_run("fio", *words)
    assert done.returncode == 0, done.stderr
    assert "twin" not in done.stderr
    assert home.snapshot() == home.before


def test_fio_writes_its_logs_and_output(home: Home, tmp_path: Path) -> None:
    job = ["--name=job", f"--filename={DRIVE}", "--ioengine=psync", *SMALL]
    out = tmp_path / "out"
    out.mkdir()
    logs = [f"--write_{kind}_log={out / kind}" for kind in ("bw", "lat", "iops")]
    done = home.twin_run(
        "fio", *job, "--rw=write", *logs, f"--write_iolog={out / 'io.log'}", f"--output={out / 'raw.json'}",
        "--output-format=json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {path.name for path in out.iterdir()} >= {"io.log", "raw.json", "bw_bw.1.log", "iops_iops.1.log"}
    assert json.loads((out / "raw.json").read_text())["jobs"][0]["write"]["total_ios"] == 16
    again = home.twin_run("fio", "--name=job", f"--read_iolog={out / 'io.log'}", "--ioengine=psync", *SMALL)
    assert again.returncode == 0, again.stderr
    assert home.snapshot() == home.before
    verified = home.twin_run("fio", *job, "--rw=write", "--verify=crc32c", keep_data=True)
    assert verified.returncode == 0, verified.stderr
    assert (home.folder / "local-job-0-verify.state").exists()


def test_every_valid_way_to_give_the_drive_works(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.write("2.log", FILES["2.log"].replace("THESIS", str(home.file)))
    home.write("job.fio", "[global]\nfilename=${WHERE}\nsize=64k\n; a comment\n[a]\nrw=read\n[b]\nrw=write\n")
    monkeypatch.setenv("WHERE", DRIVE)
    for words in (
        ["job.fio"],
        ["--name=a", "--filename={drive}", "--read_iolog=2.log", "--replay_redirect={drive}"],
        ["--name=a", "--filename", "{drive}", "--rw", "read"],
        ["-name", "a", "-filename={drive}", "-rw=read"],
        ["--filename={drive}", "--size=64k", "--name=a", "--rw=read", "--name=b", "--rw=write"],
        ["--name={drive}", "--rw=read"],
        ["--name=a", "--filename={drive}", "--rw=read", "--mem=mmap"],
        ["--name=a", "--filename={drive}", "--rw=read", "--thread", "--group_reporting", "--norandommap"],
        ["--name=a", "--filename={drive}", "--rw=write", "--unlink=1", "--overwrite=1", "--create_on_open=1"],
    ):
        done = home.twin_run("fio", *words, *(SMALL if words[0].startswith("-") else []))
        assert done.returncode == 0, (words, done.stderr, done.stdout)
    assert home.snapshot() == home.before


def test_other_programs_can_use_all_files(home: Home, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for words in (
        ["cp", str(home.file), str(copy)],
        ["dd", f"if={home.file}", f"of={copy}", "bs=4k", "count=2"],
        ["sh", "-c", f"mv {copy} {copy}2 && rm {copy}2"],
        ["sdparm", "--get=DRA", "{drive}"],
        ["dd", "if={drive}", f"of={copy}", "bs=4k", "count=1"],
    ):
        done = run(tmp_path / "state", *words)
        assert done.returncode == 0, (words, done.stderr)
    assert copy.stat().st_size == 4096
