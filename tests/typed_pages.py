"""The commands of a documentation page, typed in a copy of the project."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from patience import run
from support import ROOT, copy_project


def shell_blocks(text: str) -> list[str]:
    """Return the blocks of shell commands in Markdown text."""
    return re.findall(r"^```sh\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def fresh_clone(root: Path) -> Path:
    """Copy the project with the committed configuration instead of the small one of other tests."""
    copy_project(root)
    shutil.copy(ROOT / "config/config.yaml", root / "config/config.yaml")
    return root


def typed(root: Path, block: str) -> str:
    """Run a block of commands in a shell with active .venv; return its output."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", "-euo", "pipefail", "-c", block]
    done = run(command, 600, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{block}\n{done.stdout}"
    return str(done.stdout)
