"""The build of the kernel of `twin linux`: one at a time, shared by all checkouts, without remains.

The programs that take minutes (tar, patch and make) are replaced by short scripts.
"""

import os
import signal
import subprocess
from pathlib import Path

import patience
import pytest
from support import ROOT

pytestmark = pytest.mark.skipif(
    not list(Path("/usr/src").glob("linux-source-*.tar.xz")), reason="linux-source is not installed"
)
ENTER = 'for each; do case $each in --directory=*/source | O=*) cd "${each#*=}" ;; esac; done\n'
PROGRAMS = {
    "tar": ENTER
    + r"""mkdir -p arch/um block drivers/char
printf 'config HZ\n\tint\n\tdefault 100\n' > arch/um/Kconfig
echo 'if (IS_ENABLED(CONFIG_KMSAN))' > block/bio.c
echo '(regs ? instruction_pointer(regs) : _RET_IP_) ^ swab(irq));' > drivers/char/random.c""",
    "patch": "exit 0",
    "make": ENTER
    + """case "$*" in
*alldefconfig) : > .config ;;
*) echo "$$" >> "$BUILDS" && sleep "$DURATION" && cp /bin/true linux ;;
esac""",
}


def start(folder: Path, target: str, duration_s: float) -> "subprocess.Popen[str]":
    """Start a build with the cache ``folder/cache``; each build adds a line to ``folder/builds``."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    for name, script in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    changes = {"BUILDS": str(folder / "builds"), "DURATION": str(duration_s), "XDG_CACHE_HOME": str(folder / "cache")}
    environment = {**os.environ, **changes, "PATH": f"{programs}:{os.environ['PATH']}"}
    words = [ROOT / "src/kernel/build.sh", folder / target / "linux"]
    return subprocess.Popen(words, env=environment, text=True, stderr=subprocess.PIPE, start_new_session=True)


def kept(folder: Path) -> list[str]:
    """Return the files in the cache by the last parts of their names: one kernel, its configuration, and the lock."""
    return sorted(path.name for path in (folder / "cache/iopatterns/linux").rglob("*") if path.is_file())


def test_builds_at_the_same_time_share_one_result(tmp_path: Path) -> None:
    builds = [start(tmp_path, target, 1) for target in ("a", "b")]
    messages = [build.communicate(timeout=120)[1] for build in builds]
    assert [build.returncode for build in builds] == [0, 0], messages
    assert len((tmp_path / "builds").read_text().splitlines()) == 1
    assert (tmp_path / "a/linux").read_bytes() == (tmp_path / "b/linux").read_bytes()
    assert sum("waiting for it" in message for message in messages) == 1
    assert kept(tmp_path) == ["config", "linux", "lock"]


@pytest.mark.parametrize("whom", ["script", "group"])
def test_a_killed_build_leaves_nothing_behind(whom: str, tmp_path: Path) -> None:
    killed = start(tmp_path, "a", 2)
    patience.wait_for((tmp_path / "builds").exists, 60)
    assert "Kconfig" in kept(tmp_path)
    (os.kill if whom == "script" else os.killpg)(killed.pid, signal.SIGKILL)
    killed.communicate()
    patience.wait_for(lambda: not (tmp_path / "cache/iopatterns/linux/work").exists(), 60)
    assert kept(tmp_path) == ["lock"]


def test_the_next_build_removes_what_a_machine_without_power_has_left(tmp_path: Path) -> None:
    left = tmp_path / "cache/iopatterns/linux/work/source/Kconfig"
    left.parent.mkdir(parents=True)
    left.touch()
    build = start(tmp_path, "a", 0)
    assert "waiting for it" not in build.communicate(timeout=120)[1]
    assert build.returncode == 0
    assert kept(tmp_path) == ["config", "linux", "lock"]
