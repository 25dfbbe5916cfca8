"""The calls that the preload library stands before: all of them documented, and none in the way without a drive."""

import os
import re
import subprocess
from pathlib import Path

from support import ROOT

from iopatterns.twin import state

LIST = ROOT / "src/twin/preload/CALLS.md"


def documented() -> list[str]:
    names = []
    for line in LIST.read_text().splitlines():
        if line.startswith("| `"):
            names += re.findall(r"`(\w+)`", line.split("|")[1])
    return names


def test_the_list_of_interposed_calls_is_that_of_the_library() -> None:
    done = subprocess.run(
        ["nm", "-D", "--defined-only", state.preload_library()], capture_output=True, text=True, check=True
    )
    exported = {name for _, kind, name in (line.split() for line in done.stdout.splitlines()) if kind == "T"}
    names = documented()
    assert len(names) == len(set(names))
    assert sorted(names) == sorted(exported)


def test_without_a_drive_libaio_is_the_system_s(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(1 << 20))
    command = ["fio", "--name=job", f"--filename={file}", "--size=1m", "--rw=read", "--ioengine=libaio", "--iodepth=4"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TWIN_")}
    environment["LD_PRELOAD"] = str(state.preload_library())
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
