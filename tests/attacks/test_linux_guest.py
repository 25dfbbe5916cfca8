"""Attack the host from a guest of `twin linux`, which may read the host and write only in one folder."""

import os
import stat
import subprocess
from pathlib import Path

import pytest
from linux_kernel import let_others_in, linux, needs_kernel, needs_other_users

pytestmark = needs_kernel


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a folder with a file that the user who runs the guest may write."""
    let_others_in(tmp_path)
    folder = tmp_path / "victim"
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "file").write_text("as it was")
    (folder / "file").chmod(0o666)
    return folder


ATTACKS = {
    "write": "echo gone > {victim}/file",
    "create": "touch {victim}/new",
    "delete": "rm -f {victim}/file",
    "rename": "mv {victim}/file {victim}/other",
    "truncate": "truncate -s 0 {victim}/file",
    "mode": "chmod 600 {victim}/file {victim}",
    "time": "touch -d 2000-01-01 {victim}/file {victim}",
    "attribute": "setfattr -n user.a -v b {victim}/file",
    "hard link": "ln {victim}/file /mnt/folder/hard; echo gone > /mnt/folder/hard",
    "fifo": "mkfifo {victim}/fifo",
    "bind mount": "mount --bind {victim} /mnt/tmp; echo gone > /mnt/tmp/file",
    "namespace": "unshare --map-root-user --mount sh -c 'mount -o remount,rw /; echo gone > {victim}/file'",
    "remount": "mount -o remount,rw /; echo gone > {victim}/file",
    "mount": "mount -t hostfs none /mnt/tmp -o {victim}; echo gone > /mnt/tmp/file",
    "user": "su -c 'echo gone > {victim}/file'",
    "process": "echo gone > /proc/1/root{victim}/file",
    "working directory": "cd {victim}; echo gone > /proc/self/cwd/file",
    "root of itself": "echo gone > /proc/self/root{victim}/file",
    "descriptor": "exec 3< {victim}/file; echo gone > /proc/self/fd/3",
    "link": "ln -s {victim} /mnt/folder/link; echo gone > /mnt/folder/link/file",
    "parent": "cd /mnt/folder; echo gone > ../../{victim}/file",
    "device": "mknod /mnt/folder/device b 254 0; cat /mnt/folder/device > /dev/null && echo gone > {victim}/file",
    "scratch": "for each in /dev/shm/twin-linux-*/report /tmp/twin-linux-*/report; do echo 'exit 0' > $each; done",
}


def state_of(folder: Path) -> list[tuple[object, ...]]:
    """Return names, times, modes, links and attributes of a folder and its files."""
    paths = [folder, *sorted(folder.iterdir())]
    found = [(path, path.stat(), os.listxattr(path)) for path in paths]
    return [(path.name, state.st_mtime_ns, state.st_mode, state.st_nlink, names) for path, state, names in found]


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_changes_the_host(attack: str, victim: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    mine.chmod(0o777)
    before = state_of(victim)
    script = f"cat {victim}/file; {ATTACKS[attack].format(victim=victim)}; touch /mnt/folder/done; exit 3"
    done = linux("--folder", str(mine), "--", "sh", "-c", script)
    assert done.stdout.startswith("as it was")
    assert done.returncode == 3
    assert (mine / "done").exists()
    assert state_of(victim) == before
    assert (victim / "file").read_text() == "as it was"


# Root and another user start the guest. Opening a file for appending changes nothing, also if it succeeds.
STARTED_BY = [
    pytest.param((), id="this user"),
    pytest.param(
        ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
        id="nobody",
        marks=needs_other_users,
    ),
]


@pytest.mark.parametrize("started_by", STARTED_BY)
def test_the_guest_opens_no_file_of_the_system_for_writing(started_by: tuple[str, ...], victim: Path) -> None:
    opened = "for each in {}; do (: >> $each) 2> /dev/null && echo $each; done; ls {} > /dev/null"
    paths = f"{victim}/file /etc/passwd /etc/shadow /etc/ld.so.cache /usr/bin/env /tmp/new /var/tmp/new /run/new"
    found = linux("--", "sh", "-c", opened.format(paths, victim), within=started_by, environment={"HOME": str(victim)})
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads files of all users")
@pytest.mark.parametrize("started_by", STARTED_BY)
def test_a_guest_reads_what_the_user_who_starts_it_may_read(started_by: tuple[str, ...], victim: Path) -> None:
    secret = victim / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    done = linux("--", "cat", str(secret), within=started_by, environment={"HOME": str(victim)})
    assert (done.returncode, done.stdout) == ((1, "") if started_by else (0, "secret"))


def test_a_file_from_the_guest_has_no_privileges(tmp_path: Path) -> None:
    let_others_in(tmp_path)
    tmp_path.chmod(0o777)
    linux("--folder", str(tmp_path), "--", "sh", "-c", "cp /bin/sh {folder}/sh; chmod 6755 {folder}/sh")
    for path in tmp_path.glob("sh"):
        assert path.stat().st_uid != 0
        assert stat.S_ISREG(path.stat().st_mode)


WRITES_TO_THE_CLOCK = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
int main(int, char** words) {  // the number of a word in the clock page (512: all words), and a value
  unsigned long address = 0;
  char line[512];
  for (std::FILE* maps = std::fopen("/proc/self/maps", "r"); std::fgets(line, sizeof line, maps) != nullptr;)
    if (std::strstr(line, "[vvar]") != nullptr) address = std::strtoul(line, nullptr, 16);
  auto* page = reinterpret_cast<volatile unsigned long*>(address);
  const unsigned long word = std::strtoul(words[1], nullptr, 0), value = std::strtoul(words[2], nullptr, 0);
  for (unsigned long i = word % 512; i < (word == 512 ? 512 : word + 1); ++i) page[i] = value;
  sync();
  usleep(1000);
}
"""


@pytest.fixture(scope="module")
def clock_writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clock")
    (folder / "writes.cc").write_text(WRITES_TO_THE_CLOCK)
    subprocess.run(["g++", "-o", folder / "writes", folder / "writes.cc"], check=True)
    let_others_in(folder)
    return folder / "writes"


# Members of struct clock_page (src/kernel/clock-page-6.1.patch and program-time.patch)
MEMBERS = (
    "now", "free until", "request", "call ns", "fault ns", "calls", "faults", "runs", "program", "forced", "loops",
    "user until",
)  # fmt: skip
WORDS = {name: number for number, name in enumerate(MEMBERS)} | {"all": 512}


@pytest.mark.parametrize("value", ["0", "99999999999", "0xffffffffffffffff"])
@pytest.mark.parametrize("word", WORDS)
def test_a_program_that_overwrites_the_clock_only_affects_its_guest(word: str, value: str, clock_writer: Path) -> None:
    number = WORDS[word]
    done = linux("--fs", "ext4", "--wall-limit", "5s", "--", str(clock_writer), str(number), value)
    assert done.returncode in (0, 124, 125)
    if done.returncode != 0:
        assert done.stderr.startswith("twin: error: ")
    assert "Traceback" not in done.stderr
    if (word, value) == ("now", "0"):
        assert "the guest's clock has an impossible value" in done.stderr
    assert linux("--", "true").returncode == 0


def test_a_guest_that_exhausts_its_memory_fails() -> None:
    done = linux("--memory", "128M", "--", "sh", "-c", "x=x; while :; do x=$x$x; done")
    assert done.returncode not in (0, 1)
