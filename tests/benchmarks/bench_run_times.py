"""Run times of the commands.

The commands run in a clone of the last commit, in the order in which a user types them. The output is a table.
"""

import os
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from iopatterns.base.units import format_duration

ROOT = Path(__file__).resolve().parents[2]
SNAKEMAKE = ("bash", "-c", "source .venv/bin/activate && snakemake --cores 2")
COMMANDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("`./reproduce.sh setup`, Debian packages present", ("./reproduce.sh", "setup")),
    ("the same command again", ("./reproduce.sh", "setup")),
    ("`./reproduce.sh quick`", ("./reproduce.sh", "quick")),
    ("`./reproduce.sh` after that, on one core", ("./reproduce.sh",)),
    ("`snakemake --cores 2`, nothing measured before", SNAKEMAKE),
    ("`./reproduce.sh test --quick`", ("./reproduce.sh", "test", "--quick")),
    ("`./reproduce.sh test`", ("./reproduce.sh", "test")),
)


def main() -> None:
    """Run the commands in turn; print a table of their wall and processor times."""
    parent = ROOT / "data/scratch"
    parent.mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    print("| command | wall time | processor time |\n|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        clone = Path(folder) / "iopatterns"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        for name, command in COMMANDS:
            if command == SNAKEMAKE:
                shutil.rmtree(clone / "data/raw")
                shutil.rmtree(clone / "results")
            before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run(command, cwd=clone, env=environment, check=True, capture_output=True)
            wall_s, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(f"| {name} | {format_duration(wall_s)} | {format_duration(cpu_s)} |", flush=True)


if __name__ == "__main__":
    main()
