"""A guest of `twin linux` reads the host and writes in one folder of it, whatever it tries."""

import os
import stat
from pathlib import Path

import pytest
from linux_kernel import linux, needs_kernel

pytestmark = needs_kernel


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder with a file in which whoever runs the guest may write."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
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
    "remount": "mount -o remount,rw /; echo gone > {victim}/file",
    "mount": "mount -t hostfs none /mnt/tmp -o {victim}; echo gone > /mnt/tmp/file",
    "user": "su -c 'echo gone > {victim}/file'",
    "process": "echo gone > /proc/1/root{victim}/file",
    "link": "ln -s {victim} /mnt/folder/link; echo gone > /mnt/folder/link/file",
    "parent": "cd /mnt/folder; echo gone > ../../{victim}/file",
    "device": "mknod /mnt/folder/device b 254 0; cat /mnt/folder/device > /dev/null && echo gone > {victim}/file",
    "scratch": "for each in /dev/shm/twin-linux-*/report /tmp/twin-linux-*/report; do echo 'exit 0' > $each; done",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_host_is_as_it_was(attack: str, victim: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    mine.chmod(0o777)
    before = sorted((path.name, path.stat().st_mtime_ns, path.stat().st_mode) for path in victim.iterdir())
    script = f"cat {victim}/file; {ATTACKS[attack].format(victim=victim)}; touch /mnt/folder/done; exit 3"
    done = linux("--folder", str(mine), "--", "sh", "-c", script)
    assert done.stdout.startswith("as it was")
    assert done.returncode == 3
    assert (mine / "done").exists()
    assert sorted((path.name, path.stat().st_mtime_ns, path.stat().st_mode) for path in victim.iterdir()) == before
    assert (victim / "file").read_text() == "as it was"


def test_what_is_put_into_the_folder_has_no_rights(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for folder in tmp_path.parents:
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    linux("--folder", str(tmp_path), "--", "sh", "-c", "cp /bin/sh {folder}/sh; chmod 6755 {folder}/sh")
    for path in tmp_path.glob("sh"):
        assert path.stat().st_uid != 0
        assert stat.S_ISREG(path.stat().st_mode)


def test_a_guest_that_fills_its_memory_is_told_from_one_that_ends() -> None:
    done = linux("--memory", "128M", "--", "sh", "-c", "x=x; while :; do x=$x$x; done")
    assert done.returncode not in (0, 1)
